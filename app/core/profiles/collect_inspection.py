"""Container inspections and PCI addresses of one rank (profile-contract §11.3)."""

import re
from collections.abc import Mapping
from typing import Final

from app.core.canonical_json import ExactValue
from app.core.digest import sha256
from app.core.errors import shown
from app.core.profiles.collect_ranks import RankInspection
from app.core.profiles.collect_sources import Proof, file_lines
from app.core.profiles.documents import LIMITS, refusal
from app.core.profiles.namespace import IMAGE_ID
from app.core.profiles.observed import observe
from app.core.qualify.activation_bounds import TIME
from app.core.qualify.document import read_document

_CONTAINER: Final = re.compile(r"[0-9a-f]{12,64}")
_PCI: Final = re.compile(r"([A-Za-z0-9_]{1,64})\s+([0-9a-fA-F]{4}):[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\s*")


def read_inspection(
    raw: bytes, *, file: str, rank: int, collected_at: str
) -> tuple[RankInspection, Mapping[str, str]]:
    """Image, container, start and host of a container, and its environment for comparing.

    An inspection has no lines that mean something alone: its evidence is the digest of all of it.

    Raises:
        ProfileDocumentError: no inspection of one container.
    """
    if raw.lstrip()[:1] not in (b"{", b"["):
        raise refusal(file, code="DOC_JSON_INVALID", expected="an inspection of a container", found="none")
    environment = observe(raw, name=file, rank=rank).environment
    value = read_document(raw, subject=file, limits=LIMITS).value
    first = value[0] if isinstance(value, list) else value
    members = first if isinstance(first, dict) else {}
    proof = Proof(sha256=sha256(raw), rank=rank, at=collected_at, file=file, line=1)
    inspection = RankInspection(
        image_id=_fitting(members.get("Image"), IMAGE_ID),
        container_id=_fitting(members.get("Id"), _CONTAINER),
        started_at=_fitting(_inside(members, "State", "StartedAt"), TIME),
        hostname=_text(_inside(members, "Config", "Hostname")),
        proof=proof,
    )
    return inspection, environment


def read_pci(raw: bytes, *, file: str, rank: int, collected_at: str) -> dict[str, tuple[str, Proof]]:
    """The PCI domain of each adapter: lines of its name and its address, as links of sysfs give them.

    Raises:
        ProfileDocumentError: a line that is neither blank nor that, or an adapter twice.
    """
    domains: dict[str, tuple[str, Proof]] = {}
    for number, line in file_lines(raw):
        text = line.decode("utf-8", "replace")
        if not text.strip():
            continue
        found = _PCI.fullmatch(text)
        if found is None or found[1] in domains:
            raise refusal(
                file,
                code="DOC_FIELD",
                expected="lines of adapter and PCI address, each adapter once",
                found=shown(text),
                pointer=f"/line/{number}",
            )
        proof = Proof(sha256=sha256(line), rank=rank, at=collected_at, file=file, line=number)
        domains[found[1]] = (found[2], proof)
    return domains


def _inside(members: dict[str, ExactValue], part: str, name: str) -> ExactValue:
    inner = members.get(part)
    return inner.get(name) if isinstance(inner, dict) else None


def _fitting(value: ExactValue, form: re.Pattern[str]) -> str:
    return value if isinstance(value, str) and form.fullmatch(value) else ""


def _text(value: ExactValue) -> str:
    return value if isinstance(value, str) else ""
