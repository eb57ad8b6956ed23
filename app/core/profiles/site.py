"""The site document and the permitted lists (profile-contract §6).

A site says where a ring runs: addresses and folders of its four hosts, and at most a few options. It names no
profile value; whatever else it holds is refused.
"""

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from app.core.digest import Digest
from app.core.errors import shown
from app.core.profiles.documents import DocumentKind, ProfileDocument, read_profile_document
from app.core.profiles.fields import Fields, Problems
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.namespace import derive_namespace, isolated_finding
from app.core.profiles.template import has_control
from app.core.qualify.pointer import step

RANKS: Final = 4
SITE_PROFILES: Final = ("tp4-dcp1", "tp4-dcp1-sparkcache", "tp4-dcp4", "tp4-dcp4-sparkcache")
"""Profiles a site may choose; diagnostics of NCCL and overlay roots are for the same four."""
DIAGNOSTIC_PROFILES: Final = ("tp4-dcp1-sparkcache", "tp4-dcp4-sparkcache")
ENTRY_PROFILES: Final = ("tp2-dcp1", "tp2-dcp1-sparkcache", *SITE_PROFILES)
"""What the overlay's entrypoint takes; the baked contract holds four of them."""
_REQUIRED: Final = frozenset(
    {
        *("schema", "topology_file", "management_addresses", "model_roots", "cache_roots", "bundle_root"),
        *("container_prefix", "marker_binary", "marker_binary_sha256", "state_root"),
    }
)
_OPTIONAL: Final = frozenset(
    {
        *("api_keys_file", "liveness_output_seconds", "runtime_profile", "cache_diagnostics", "nccl_debug"),
        "r33_profile_contract_roots",
    }
)
_PREFIX: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_FORBIDDEN_IN_PATHS: Final = (":", "REPLACE")
_MAX_INT32: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A site in form.

    Attributes:
        diagnostic_namespace: of a diagnostic start; none for a normal one.
        contract_roots: the overlay's folder on each rank's host, by rank; empty where there is none.
    """

    sha256: Digest
    topology_file: str
    management_addresses: tuple[str, ...]
    model_roots: tuple[str, ...]
    cache_roots: tuple[str, ...]
    bundle_root: str
    container_prefix: str
    state_root: str
    runtime_profile: str | None
    diagnostic_namespace: str | None
    nccl_debug: str | None
    contract_roots: tuple[str, ...]


def read_site(
    source: bytes | ProfileDocument, *, subject: str = "site", derived_namespace: str | None = None
) -> Site:
    """Parse a site.

    Args: derived_namespace: of the chosen profile, if it is known; a diagnostic one must differ from it.

    Raises: ProfileDocumentError: as ``read_profile_document``; SITE_FIELDS (required, unknown or wrong
    field), SITE_PATH_UNSAFE, SITE_PROFILE_NOT_ALLOWED, SITE_DIAG_SHAPE, NS_DIAG_ISOLATED.
    """
    if isinstance(source, bytes):
        source = read_profile_document(source, subject=subject, kind=DocumentKind.SITE)
    problems = Problems(subject=subject, sha256=source.sha256, missing="SITE_FIELDS", wrong="SITE_FIELDS")
    top = Fields.of(source.value, problems=problems)
    top.only(_REQUIRED | _OPTIONAL)
    top.digest("marker_binary_sha256")
    _path(top, "marker_binary")
    if top.has("api_keys_file"):
        _path(top, "api_keys_file")
    if top.has("liveness_output_seconds"):
        top.integer("liveness_output_seconds", minimum=1, maximum=_MAX_INT32)
    profile = _profile(top)
    site = Site(
        sha256=source.sha256,
        topology_file=_relative(top, "topology_file"),
        management_addresses=_addresses(top),
        model_roots=_paths(top, "model_roots"),
        cache_roots=_paths(top, "cache_roots"),
        bundle_root=_path(top, "bundle_root"),
        container_prefix=top.text("container_prefix", pattern=_PREFIX),
        state_root=_path(top, "state_root"),
        runtime_profile=profile,
        diagnostic_namespace=_diagnostics(top, profile=profile, derived=derived_namespace),
        nccl_debug=_debug(top, profile=profile),
        contract_roots=_contract_roots(top, profile=profile),
    )
    problems.refuse()
    return site


def site_findings(site: Site, *, profile: str | None, image_id: str | None) -> Iterator[ProfileFinding]:
    """What a site that is in form says of a profile and an image: SITE_FIELDS, SITE_PROFILE_NOT_ALLOWED,
    NS_DIAG_ISOLATED.

    Args: profile: what is asked for, if it is one. image_id: of the image receipt, without which a site may
    hold no options (§6).
    """
    yield finding("SITE_FIELDS", CheckResult.PASS, document_sha256=site.sha256)
    yield chosen_finding(site, profile=profile)
    options = {
        "cache_diagnostics": site.diagnostic_namespace,
        "nccl_debug": site.nccl_debug,
        "r33_profile_contract_roots": site.contract_roots,
    }
    for name, value in options.items() if image_id is None else ():
        if value:
            detail = f"not given: image receipt, which {name} needs"
            yield finding(
                "SITE_PROFILE_NOT_ALLOWED",
                CheckResult.NOT_TESTED,
                pointer=step(name),
                detail=detail,
                document_sha256=site.sha256,
            )
    if image_id is not None and site.runtime_profile is not None:
        derived = derive_namespace(image_id, site.runtime_profile)
        at = "/cache_diagnostics/namespace"
        yield isolated_finding(derived=derived, diagnostic=site.diagnostic_namespace, pointer=at)


def chosen_finding(site: Site | None, *, profile: str | None, rank: int | None = None) -> ProfileFinding:
    """SITE_PROFILE_NOT_ALLOWED: the site chooses the profile that is asked for."""
    code, chosen = "SITE_PROFILE_NOT_ALLOWED", site.runtime_profile if site is not None else None
    if site is None or chosen is None or profile is None:
        missing = "the site names no profile" if profile is not None else "not given: profile"
        detail = "not given: site" if site is None else missing
        return finding(code, CheckResult.NOT_TESTED, detail=detail, rank=rank)
    return finding(
        code,
        CheckResult.PASS if chosen == profile else CheckResult.FAIL,
        pointer="/runtime_profile",
        expected=profile,
        found=chosen,
        rank=rank,
        document_sha256=site.sha256,
    )


def _profile(top: Fields) -> str | None:
    if not top.has("runtime_profile"):
        return None
    name = top.text("runtime_profile")
    if name and name not in SITE_PROFILES:
        _refuse_profile(top, "runtime_profile", SITE_PROFILES, name)
    return name


def _refuse_profile(top: Fields, field: str, allowed: tuple[str, ...], found: str | None) -> None:
    top.problems.add(
        top.place(field),
        code="SITE_PROFILE_NOT_ALLOWED",
        expected=f"the profile {' or '.join(allowed)}",
        found=shown(found) if found else "no profile",
    )


def _debug(top: Fields, *, profile: str | None) -> str | None:
    if not top.has("nccl_debug"):
        return None
    if profile not in SITE_PROFILES:
        _refuse_profile(top, "nccl_debug", SITE_PROFILES, profile)
    return top.text("nccl_debug", one_of=("INFO",))


def _contract_roots(top: Fields, *, profile: str | None) -> tuple[str, ...]:
    if not top.has("r33_profile_contract_roots"):
        return ()
    if profile not in SITE_PROFILES:
        _refuse_profile(top, "r33_profile_contract_roots", SITE_PROFILES, profile)
    return _paths(top, "r33_profile_contract_roots")


def _diagnostics(top: Fields, *, profile: str | None, derived: str | None) -> str | None:
    if not top.has("cache_diagnostics"):
        return None
    if profile not in DIAGNOSTIC_PROFILES:
        _refuse_profile(top, "cache_diagnostics", DIAGNOSTIC_PROFILES, profile)
    value, at = top.raw("cache_diagnostics"), top.place("cache_diagnostics")
    add = top.problems.add
    keys = {"namespace", "access_mode", "trace_reuse"}
    if not isinstance(value, dict) or value.keys() != keys:
        add(
            at,
            code="SITE_DIAG_SHAPE",
            expected=f"exactly the keys {', '.join(sorted(keys))}",
            found=shown(value),
        )
        return None
    namespace = value["namespace"]
    if value["access_mode"] != "restore-only":
        found = shown(value["access_mode"])
        add(f"{at}/access_mode", code="SITE_DIAG_SHAPE", expected="restore-only", found=found)
    if type(value["trace_reuse"]) is not int or value["trace_reuse"] != 1:
        add(
            f"{at}/trace_reuse",
            code="SITE_DIAG_SHAPE",
            expected="the integer 1",
            found=shown(value["trace_reuse"]),
        )
    if not isinstance(namespace, str) or _NAMESPACE.fullmatch(namespace) is None or "REPLACE" in namespace:
        expected = f"text of the form {_NAMESPACE.pattern} without REPLACE"
        add(f"{at}/namespace", code="SITE_DIAG_SHAPE", expected=expected, found=shown(namespace))
        return None
    if namespace == derived:
        add(
            f"{at}/namespace",
            code="NS_DIAG_ISOLATED",
            expected="another one than the derived",
            found=namespace,
        )
    return namespace


def _addresses(top: Fields) -> tuple[str, ...]:
    addresses = top.texts("management_addresses", maximum_count=RANKS)
    at = top.place("management_addresses")
    for index, text in enumerate(addresses):
        if not _is_address(text):
            top.problems.add(at + step(index), expected="an IPv4 address", found=shown(text))
    if addresses and len(set(addresses)) != RANKS:
        found = f"{len(addresses)}, {len(set(addresses))} of them different"
        top.problems.add(at, expected=f"{RANKS} different addresses", found=found)
    return addresses


def _is_address(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _paths(top: Fields, name: str) -> tuple[str, ...]:
    paths = top.texts(name, maximum_count=RANKS)
    at = top.place(name)
    if paths and len(paths) != RANKS:
        top.problems.add(at, expected=f"{RANKS} paths, by rank", found=f"{len(paths)}")
    for index, path in enumerate(paths):
        _check_path(top, at + step(index), path)
    return paths


def _path(top: Fields, name: str) -> str:
    path = top.text(name)
    if path:
        _check_path(top, top.place(name), path)
    return path


def _relative(top: Fields, name: str) -> str:
    """A file beside the site; neither absolute nor leading out."""
    path = top.text(name)
    if path.startswith("/") or ".." in path.split("/") or has_control(path) or "REPLACE" in path:
        expected = "a path below the site's folder"
        top.problems.add(top.place(name), code="SITE_PATH_UNSAFE", expected=expected, found=shown(path))
    return path


def _check_path(top: Fields, at: str, path: str) -> None:
    parts = path.split("/")
    holds = path.startswith("/") and any(parts) and ".." not in parts
    if not holds or has_control(path) or any(sign in path for sign in _FORBIDDEN_IN_PATHS):
        expected = "an absolute path, not /, without .., colon, control characters and REPLACE"
        top.problems.add(at, code="SITE_PATH_UNSAFE", expected=expected, found=shown(path))
