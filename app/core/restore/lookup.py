"""Find and plan the ordered entry: the first two steps of restore-contract §3."""

from dataclasses import dataclass
from typing import TypeAlias

from app.core.digest import Digest, sha256
from app.core.errors import AbsentError, CoreError, IncompatibleError, IntegrityError, PlanError
from app.core.restore.conditions import CacheMode, Conditions
from app.core.restore.page_cache import prepare_cache
from app.core.restore.page_plan import PagePlan, plan_restore
from app.core.restore.plan import RestoreLimits
from app.core.restore.reader import RootReader
from app.core.restore.row_plan import RowPlan, plan_rows
from app.core.store.entry import Entry, judge_alias, judge_root
from app.core.store.identity import CacheIdentity
from app.core.store.layout import DocumentName
from app.core.store.manifest import LegacyManifest, PrefixAlias, RowTailManifest, StorageMode
from app.core.store.page_streams import page_root
from app.core.store.snapshot import PageLayout

RankPlan: TypeAlias = PagePlan | RowPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOrder:
    """What one rank is to restore.

    Attributes:
        identity: the asked identity, or ``None`` to ask for the one with the storage key.
        storage_key: where the root document is filed.
        layout: of the serving runtime; rows need none.
        mode: how a legacy entry is to be read, else pages if it can hold them; in row mode an alias is tried
            where there is no exact document (store-format §10.3).
        span_tokens: the wanted span, or ``None`` for the stored one.
        manifest_sha256: the root document that was registered; any other one is an integrity error.
        stream_pinned: that document passed a complete check before, digests of streams included, so those
            need not be computed again.

    Raises:
        ValueError: pinned without saying which document.
    """

    identity: CacheIdentity | None
    storage_key: Digest
    context_digest: Digest
    layout: PageLayout | None
    mode: StorageMode | None = None
    span_tokens: int | None = None
    manifest_sha256: Digest | None = None
    stream_pinned: bool = False

    def __post_init__(self) -> None:
        if self.stream_pinned and self.manifest_sha256 is None:
            raise ValueError("stream_pinned: expected with the manifest_sha256 it holds for, found without")

    @property
    def name(self) -> DocumentName:
        """Where the root document is filed."""
        return DocumentName(storage_key=self.storage_key, context_digest=self.context_digest)


def find_ordered(order: RankOrder, *, reader: RootReader) -> Entry:
    """Step 2: the metadata level of store-format §13.1, for the registered document if there is one.

    Raises:
        AbsentError: nothing is filed there.
        FormatError, IntegrityError: corrupt; also another document than the registered one.
        IncompatibleError: an entry of another identity, ABI, mode, context or span.
        ResourceError: out of descriptors or memory.
    """
    is_alias, raw = _read(order, reader=reader)
    found = sha256(raw)
    if order.manifest_sha256 not in (None, found):
        raise IntegrityError("root document", expected=f"SHA-256 {order.manifest_sha256}", found=found)
    judge = judge_alias if is_alias else judge_root
    entry = judge(reader.files, raw=raw, name=order.name, identity=order.identity)
    if entry.identity.storage_key != order.storage_key:
        raise IncompatibleError(
            "root document.identity",
            expected=f"the one with storage key {order.storage_key}",
            found=entry.identity.storage_key,
        )
    if order.span_tokens not in (None, entry.committed_tokens):
        raise IncompatibleError(
            "root document.committed_tokens",
            expected=f"the wanted span of {order.span_tokens} tokens",
            found=str(entry.committed_tokens),
        )
    return entry


def require_unchanged(entry: Entry, *, order: RankOrder, reader: RootReader) -> None:
    """Step 2, second half: equal bytes have an equal value and pass the same checks.

    Raises:
        IntegrityError: another document lies there now.
        AbsentError, FormatError, ResourceError: as ``find_ordered``.
    """
    _, raw = _read(order, reader=reader)
    found = sha256(raw)
    if found != entry.sha256:
        raise IntegrityError("root document", expected=f"still SHA-256 {entry.sha256}", found=found)


def plan_entry(entry: Entry, *, order: RankOrder, limits: RestoreLimits) -> RankPlan:
    """What is to be read, for an entry of any kind.

    Raises:
        FormatError: the entry cannot be one of this layout, or holds rows where pages are wanted.
        IncompatibleError: pages are wanted of an entry that has other records.
        PlanError: it cannot be restored within the limits, or there is no layout to restore pages into.
    """
    if _holds_rows(entry, mode=order.mode):
        return plan_rows(entry, limits=limits)
    root = page_root(entry)
    if order.layout is None:
        raise PlanError("entry", expected="a page layout to restore pages into", found="none")
    return plan_restore(root, layout=order.layout, limits=limits)


def observe(reader: RootReader, *, order: RankOrder, cores: int) -> Conditions:
    """What a restore of this order is about to find, changed in nothing.

    Whatever cannot be found, planned or measured is for the restore to say; here it is not known.
    """
    try:
        entry = find_ordered(order, reader=reader)
        plan = plan_entry(entry, order=order, limits=RestoreLimits())
        state = prepare_cache(reader.files, sources=plan.sources, mode=CacheMode.AS_IS)
    except CoreError:
        return Conditions(cores=cores)
    return Conditions(cache=state, cores=cores)


def _holds_rows(entry: Entry, *, mode: StorageMode | None) -> bool:
    """Only a legacy entry can be either; aliases and tails are rows, everything else is pages (§4)."""
    document = entry.document
    if isinstance(document, PrefixAlias | RowTailManifest):
        return True
    if not isinstance(document, LegacyManifest):
        return False
    if mode is StorageMode.PAGES and not document.identity.stores_pages:
        raise IncompatibleError(
            "root document.identity",
            expected="exactly the records target_ckv and logical_positions, as pages have",
            found=", ".join(sorted(document.identity.required_records)),
        )
    return mode is StorageMode.ROWS or not document.identity.stores_pages


def _read(order: RankOrder, *, reader: RootReader) -> tuple[bool, bytes]:
    try:
        return False, reader.read_document(order.name)
    except AbsentError:
        if order.mode is not StorageMode.ROWS:
            raise
        return True, reader.read_alias(order.name)
