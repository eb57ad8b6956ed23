"""The cache namespaces that the registered profiles come to, and which of them would meet on one host."""

from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy.orm import Session

from app.core.profiles.contract import Contract
from app.core.profiles.documents import DocumentKind
from app.core.profiles.findings import CheckResult, ProfileFinding, overall
from app.core.profiles.namespace import IMAGE_ID, Deployment, collisions, derive_namespace
from app.core.profiles.profile_entry import ProfileEntry
from app.errors import FieldProblem, Refused
from app.profiles.service.contracts import StoredProfile, image_receipt_of, read_contracts, text_of
from app.profiles.service.reading import list_documents

# So many contracts are laid beside each other, the newest ones.
MOST_CONTRACTS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSays:
    """What no document tells of a deployment (§18.13)."""

    image_id: str | None = None
    host: str = ""
    kv_dtype: str | None = None
    block_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """Every cache profile of the newest contracts; `without_image` are contracts no image receipt fits."""

    deployments: tuple[Deployment, ...]
    findings: tuple[ProfileFinding, ...]
    without_image: tuple[str, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnNamespace:
    """The namespace of one profile, None where it has no cache, and what would share it."""

    namespace: str | None
    image_id: str
    findings: tuple[ProfileFinding, ...]

    @property
    def result(self) -> CheckResult:
        return overall(self.findings) if self.namespace is not None else CheckResult.NOT_APPLICABLE


def registered(session: Session) -> Registered:
    """The namespaces of all registered profiles on the images their receipts name."""
    listed = list_documents(
        session, kind=DocumentKind.CONTRACT, text=None, after=None, limit=MOST_CONTRACTS + 1
    )
    deployments: list[Deployment] = []
    without: list[str] = []
    for contract in read_contracts(session, digests=[one.sha256 for one in listed[:MOST_CONTRACTS]]):
        image_id = text_of(image_receipt_of(session, contract=contract), "image_id")
        if image_id is None or IMAGE_ID.fullmatch(image_id) is None:
            without.append(contract.sha256)
            continue
        cached = (entry for entry in contract.profiles.values() if entry.sparkcache)
        deployments += [_deployment(contract, entry, image_id=image_id) for entry in cached]
    return Registered(
        deployments=tuple(deployments),
        findings=collisions(deployments),
        without_image=tuple(without),
        is_complete=len(listed) <= MOST_CONTRACTS,
    )


def own_namespace(session: Session, *, profile: StoredProfile, says: OperatorSays) -> OwnNamespace:
    """The namespace of a profile, with the collisions it would be part of.

    Raises:
        Refused: neither the request nor a stored receipt names the image, or it has another form.
    """
    image_id = says.image_id or profile.image_id
    if image_id is None or IMAGE_ID.fullmatch(image_id) is None:
        found = "none, and no image receipt fits the contract" if image_id is None else repr(image_id[:80])
        detail = f"image_id: expected sha256: and 64 hexadecimal digits, found {found}"
        raise Refused(detail, errors=(FieldProblem(pointer="/image_id", detail=detail),))
    entry = profile.effective.entry
    if not entry.sparkcache:
        return OwnNamespace(namespace=None, image_id=image_id, findings=())
    own = replace(
        _deployment(profile.contract, entry, image_id=image_id),
        host=says.host,
        kv_dtype=says.kv_dtype,
        block_size=says.block_size,
    )
    others = [
        replace(one, host=says.host)
        for one in registered(session).deployments
        if one.namespace == own.namespace and one.name != own.name
    ]
    return OwnNamespace(namespace=own.namespace, image_id=image_id, findings=collisions([own, *others]))


def _deployment(contract: Contract, entry: ProfileEntry, *, image_id: str) -> Deployment:
    return Deployment(
        name=f"{entry.name} of {contract.sha256[:12]}",
        host="",
        namespace=derive_namespace(image_id, entry.name),
        image_id=image_id,
        tensor_parallel_size=entry.tensor_parallel_size,
        decode_context_parallel_size=entry.decode_context_parallel_size,
        model_revision=contract.model.revision,
    )
