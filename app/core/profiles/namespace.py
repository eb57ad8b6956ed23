"""Which cache namespace a profile writes to, and which deployments would share one (profile-contract §7).

The derivation is a label of 48 bits of the image's configuration id and the profile's name; it says nothing
of contract, template or geometry. So a shared name is only found by comparing what stands behind it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.core.canonical_json import ExactValue, JsonObject
from app.core.errors import FormatError, shown
from app.core.profiles.fields import Fields, Problems
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.profile_entry import ProfileEntry

PREFIX: Final = "sparkring-r33-"
"""The prefix of this image family; later families have another one."""
IMAGE_ID: Final = re.compile(r"sha256:[0-9a-f]{64}")
SAFE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""What a namespace may consist of (§5.3)."""
_KEPT_HEX: Final = slice(7, 19)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What may write below one namespace on one host.

    Attributes:
        name: what the deployment is called in messages.
        kv_dtype, block_size: said by the operator, not read from a document (§18.13); none if not said.
        pointer: where the deployment is described.
    """

    name: str
    host: str
    namespace: str
    image_id: str
    tensor_parallel_size: int
    decode_context_parallel_size: int
    model_revision: str
    kv_dtype: str | None = None
    block_size: int | None = None
    pointer: str = ""


def derive_namespace(image_id: str, profile: str, *, prefix: str = PREFIX) -> str:
    """The namespace of a cache profile on an image.

    Args: image_id: ``sha256:`` and 64 hexadecimal characters, the configuration id and not a registry
    digest.

    Raises: FormatError: the id or the name has another form.
    """
    if IMAGE_ID.fullmatch(image_id) is None:
        raise FormatError("image id", expected="sha256: and 64 hexadecimal characters", found=shown(image_id))
    if SAFE_NAME.fullmatch(profile) is None:
        raise FormatError(
            "profile name", expected=f"text of the form {SAFE_NAME.pattern}", found=shown(profile)
        )
    return f"{prefix}{image_id[_KEPT_HEX]}-{profile}"


def derived_finding(
    entry: ProfileEntry, *, image_id: str | None, found: str | None, rank: int | None = None
) -> ProfileFinding:
    """NS_DERIVED of one rank: the namespace in use is the derived one.

    A profile without a cache has none; without an image id nothing can be derived.
    """
    pointer = "/SPARKCACHE_CACHE_NAMESPACE"
    if not entry.sparkcache:
        stray = found not in (None, "")
        return finding(
            "NS_DERIVED",
            CheckResult.FAIL if stray else CheckResult.NOT_APPLICABLE,
            pointer=pointer,
            detail="a profile without a cache has no namespace",
            expected="no namespace" if stray else "",
            found=found or "",
            rank=rank,
        )
    if image_id is None:
        return finding(
            "NS_DERIVED", CheckResult.NOT_TESTED, pointer=pointer, detail="not given: image id", rank=rank
        )
    expected = derive_namespace(image_id, entry.name)
    return finding(
        "NS_DERIVED",
        CheckResult.PASS if found == expected else CheckResult.FAIL,
        pointer=pointer,
        detail=f"from image id {image_id}",
        expected=expected,
        found=found if found is not None else "nothing",
        rank=rank,
    )


def isolated_finding(*, derived: str, diagnostic: str | None, pointer: str = "") -> ProfileFinding:
    """NS_DIAG_ISOLATED: a diagnostic start looks at another namespace than the one in service."""
    if diagnostic is None:
        return finding(
            "NS_DIAG_ISOLATED", CheckResult.NOT_APPLICABLE, pointer=pointer, detail="no diagnostic start"
        )
    return finding(
        "NS_DIAG_ISOLATED",
        CheckResult.FAIL if diagnostic == derived else CheckResult.PASS,
        pointer=pointer,
        expected=f"another namespace than {derived}",
        found=diagnostic,
    )


def ranks_finding(namespaces: dict[int, str | None]) -> ProfileFinding:
    """NS_RANKS_DIFFER: every rank uses the same namespace, or none of them any."""
    if len(namespaces) < 2:
        detail = "fewer than two ranks given"
        return finding(
            "NS_RANKS_DIFFER", CheckResult.NOT_TESTED, pointer="/SPARKCACHE_CACHE_NAMESPACE", detail=detail
        )
    names = set(namespaces.values())
    told = ", ".join(f"rank {rank}: {name or 'none'}" for rank, name in sorted(namespaces.items()))
    return finding(
        "NS_RANKS_DIFFER",
        CheckResult.PASS if len(names) == 1 else CheckResult.FAIL,
        pointer="/SPARKCACHE_CACHE_NAMESPACE",
        expected="one namespace on every rank",
        found=told,
    )


def collisions(deployments: Iterable[Deployment]) -> tuple[ProfileFinding, ...]:
    """NS_DCP_COLLISION for every namespace of every host: fails where what stands behind it differs.

    KV dtype and block size are compared only where an operator said them; where they are said for one
    deployment and not for another of the same namespace the answer is indeterminate.
    """
    groups: dict[tuple[str, str], list[Deployment]] = {}
    for one in deployments:
        if one.namespace:
            groups.setdefault((one.host, one.namespace), []).append(one)
    return tuple(_collision(group) for group in groups.values())


def read_deployments(value: ExactValue, *, subject: str = "deployments") -> tuple[Deployment, ...]:
    """Deployments out of ``{"deployments": [{…}]}``, the fields named as those of ``Deployment``.

    Raises: ProfileDocumentError: DOC_FIELD.
    """
    problems = Problems(subject=subject)
    listed = Fields.of(value, problems=problems).objects("deployments")
    taken = tuple(_deployment(fields) for fields in listed)
    problems.refuse()
    return taken


def deployment_object(one: Deployment) -> JsonObject:
    """A deployment as JSON; what an operator said is marked as such."""
    return {
        "name": one.name,
        "host": one.host,
        "namespace": one.namespace,
        "image_id": one.image_id,
        "tensor_parallel_size": one.tensor_parallel_size,
        "decode_context_parallel_size": one.decode_context_parallel_size,
        "model_revision": one.model_revision,
        "operator_supplied": {"kv_dtype": one.kv_dtype, "block_size": one.block_size},
    }


def _deployment(fields: Fields) -> Deployment:
    return Deployment(
        name=fields.text("name"),
        host=fields.text("host"),
        namespace=fields.text("namespace", pattern=SAFE_NAME),
        image_id=fields.text("image_id", pattern=IMAGE_ID),
        tensor_parallel_size=fields.integer("tensor_parallel_size", minimum=1),
        decode_context_parallel_size=fields.integer("decode_context_parallel_size", minimum=1),
        model_revision=fields.text("model_revision"),
        kv_dtype=fields.text("kv_dtype") if fields.has("kv_dtype") else None,
        block_size=fields.integer("block_size", minimum=1) if fields.has("block_size") else None,
        pointer=fields.at,
    )


def _collision(group: list[Deployment]) -> ProfileFinding:
    first = group[0]
    differing = [name for name in _COMPARED if len({getattr(one, name) for one in group}) > 1]
    said = [name for name in _SAID if len({getattr(one, name) for one in group} - {None}) > 1]
    unsaid = [
        name for name in _SAID if None in (seen := {getattr(one, name) for one in group}) and len(seen) > 1
    ]
    result, found = CheckResult.PASS, ", ".join(sorted({one.name for one in group}))
    if differing or said:
        result, found = CheckResult.FAIL, _told(group, [*differing, *said])
    elif unsaid:
        result, found = CheckResult.INDETERMINATE, f"not said for every deployment: {', '.join(unsaid)}"
    return finding(
        "NS_DCP_COLLISION",
        result,
        pointer=first.pointer,
        detail=f"namespace {first.namespace} on host {first.host or 'any'}",
        expected="one image, TP, DCP, model revision, KV dtype and block size behind it",
        found=found,
    )


def _told(group: list[Deployment], names: list[str]) -> str:
    parts = []
    for name in names:
        values = ", ".join(f"{one.name} {getattr(one, name)}" for one in group[:6])
        parts.append(f"{name.replace('_', ' ')}: {values}")
    return "; ".join(parts)


_COMPARED: Final = (
    "image_id",
    "tensor_parallel_size",
    "decode_context_parallel_size",
    "model_revision",
)
_SAID: Final = ("kv_dtype", "block_size")
