"""An activation receipt judged against its contract, by the published rules or by ours
(profile-contract §11, §14, §16, §18.4, §18.6, §18.7).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from app.core.canonical_json import ExactValue, JsonObject, JsonValue, decode_exact
from app.core.digest import Digest, sha256
from app.core.errors import DocumentError, FormatError, shown
from app.core.profiles.activation_own import (
    binds_degrees,
    degree_findings,
    evidence_findings,
    form_findings,
)
from app.core.profiles.activation_ranks import loader_counter, rank_findings, transport_counter
from app.core.profiles.activation_serving import (
    cache_findings,
    extra_findings,
    long_prefill_findings,
    pool_findings,
    serving_findings,
)
from app.core.profiles.activation_terms import ActivationReceipt, Member, RuleSet, Terms
from app.core.profiles.codes import Severity
from app.core.profiles.contract import Contract
from app.core.profiles.documents import (
    LIMITS,
    DocumentKind,
    ProfileDocumentError,
    read_profile_document,
)
from app.core.profiles.findings import (
    CheckResult,
    ProfileFinding,
    blocking,
    finding_object,
    overall,
)
from app.core.profiles.image_receipt import image_receipt_findings
from app.core.profiles.profile_entry import ProfileEntry
from app.core.profiles.release import ReleaseSelection
from app.core.qualify.activation_bounds import OWN_SCHEMA, PUBLISHED_POOLS, PUBLISHED_SCHEMA
from app.core.qualify.document import read_document

_FIXTURE: Final = (1, 8, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow:
    """One rank as a line of a table: what it says, bounded and as text; ``failed`` are names of values that
    a rule refused."""

    pointer: str
    rank: str
    values: Mapping[str, str]
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationJudgement:
    """What the rules make of a receipt. ``findings`` stand in the order of §11.2, passes included."""

    sha256: Digest
    contract_sha256: Digest
    rules: RuleSet
    pinned: bool
    schema: str
    profile: str
    findings: tuple[ProfileFinding, ...]
    ranks: tuple[RankRow, ...]

    @property
    def result(self) -> CheckResult:
        """One word for all of them."""
        return overall(self.findings)

    @property
    def first(self) -> ProfileFinding | None:
        """The first that blocks."""
        return next(iter(blocking(self.findings)), None)

    @property
    def warnings(self) -> tuple[ProfileFinding, ...]:
        """Failed checks that do not block."""
        return tuple(one for one in self.findings if one.result is CheckResult.FAIL and not one.blocks)


def judge_activation(
    raw: bytes,
    *,
    contract: Contract,
    rules: RuleSet = RuleSet.STRICT,
    pinned: bool = False,
    pools: Mapping[tuple[int, int], int] = PUBLISHED_POOLS,
) -> ActivationJudgement:
    """Judge the bytes of a receipt; nothing in them raises.

    Args:
        contract: the version the receipt is judged against (§14 G-12).
        pinned: a release selection that names the profile pins these bytes (§18.6).
        pools: tokens by TP and DCP around which the pool's window lies.
    """
    terms = Terms(rules=rules, document_sha256=sha256(raw))
    try:
        receipt = ActivationReceipt.of(_decoded(raw, rules=rules))
    except ProfileDocumentError as error:
        empty = ActivationReceipt.of({})
        return _judgement(empty, error.findings, contract=contract, terms=terms, pinned=pinned)
    found = tuple(_findings(receipt, contract=contract, terms=terms, pinned=pinned, pools=pools))
    return _judgement(receipt, found, contract=contract, terms=terms, pinned=pinned)


def is_pinned(
    judgement: ActivationJudgement, *, contract: Contract, selections: Iterable[ReleaseSelection]
) -> bool:
    """Whether a release selection pins the receipt's bytes; one whose path names a profile must name the
    receipt's (§14 G-1)."""
    pins = [pin for one in selections if (pin := one.pins(judgement.sha256)) is not None]
    return any(_named_profile(pin.path, contract=contract) in ("", judgement.profile) for pin in pins)


def activation_object(judgement: ActivationJudgement) -> JsonObject:
    """The judgement as JSON."""
    findings: list[JsonValue] = [finding_object(one) for one in judgement.findings]
    ranks: list[JsonValue] = [
        {"pointer": row.pointer, "rank": row.rank, "values": dict(row.values), "failed": list(row.failed)}
        for row in judgement.ranks
    ]
    first = judgement.first
    return {
        "sha256": judgement.sha256,
        "schema": judgement.schema,
        "profile": judgement.profile,
        "contract_sha256": judgement.contract_sha256,
        "rules": judgement.rules.value,
        "pinned": judgement.pinned,
        "result": judgement.result.value,
        "first": first.code if first else None,
        "warnings": list(dict.fromkeys(one.code for one in judgement.warnings)),
        "findings": findings,
        "ranks": ranks,
    }


def _judgement(
    receipt: ActivationReceipt,
    found: tuple[ProfileFinding, ...],
    *,
    contract: Contract,
    terms: Terms,
    pinned: bool,
) -> ActivationJudgement:
    placed = tuple(
        one if one.document_sha256 else replace(one, document_sha256=terms.document_sha256) for one in found
    )
    return ActivationJudgement(
        sha256=terms.document_sha256,
        contract_sha256=contract.sha256,
        rules=terms.rules,
        pinned=pinned,
        schema=receipt.schema,
        profile=receipt.profile,
        findings=placed,
        ranks=tuple(_row(receipt, index, placed) for index in range(len(receipt.ranks))),
    )


def _findings(
    receipt: ActivationReceipt,
    *,
    contract: Contract,
    terms: Terms,
    pinned: bool,
    pools: Mapping[tuple[int, int], int],
) -> Iterator[ProfileFinding]:
    """Every rule, in the order of §11.2; of an unknown profile nothing further can be asked."""
    entry = contract.profiles.get(receipt.profile)
    known = ", ".join(contract.profiles)
    yield terms.say("CT_PROFILE_UNKNOWN", entry is not None, receipt.member("profile"), expected=known)
    yield from image_receipt_findings(
        receipt.value.get("image"),
        contract=contract,
        profile=receipt.profile,
        pointer="/image",
        document_sha256=terms.document_sha256,
    )
    yield from _head_findings(receipt, contract=contract, terms=terms)
    if entry is None:
        return
    own = receipt.schema == OWN_SCHEMA and terms.strict
    binds = own and binds_degrees(receipt, entry=entry)
    if own:
        yield from form_findings(receipt, terms=terms)
        yield from degree_findings(receipt, entry=entry, terms=terms)
    yield from rank_findings(receipt, entry=entry, contract=contract, terms=terms, own=own)
    yield from serving_findings(receipt, contract=contract, terms=terms)
    yield from pool_findings(receipt, entry=entry, terms=terms, pools=pools, binds_degrees=binds)
    yield from long_prefill_findings(receipt, entry=entry, terms=terms)
    yield from cache_findings(receipt, entry=entry, terms=terms)
    if terms.strict:
        yield from extra_findings(receipt, entry=entry, terms=terms)
        yield _degrees_bound(receipt, terms=terms, binds=binds, pinned=pinned)
        yield from _evidence(receipt, terms=terms, own=own)
        yield _fixture_like(receipt, entry=entry, contract=contract, terms=terms)


def _head_findings(
    receipt: ActivationReceipt, *, contract: Contract, terms: Terms
) -> Iterator[ProfileFinding]:
    """Step 4: schema, flag, and the digest of the contract."""
    schemas = (PUBLISHED_SCHEMA, OWN_SCHEMA) if terms.strict else (PUBLISHED_SCHEMA,)
    schema, flag = receipt.member("schema"), receipt.member("checks_passed")
    yield terms.say("ACT_SCHEMA", schema.value in schemas, schema, expected=" or ".join(schemas))
    yield terms.say("ACT_SCHEMA", flag.value is True, flag, expected="true")
    bound = receipt.member("profile_contract_sha256")
    same = bound.value == contract.sha256
    yield terms.say("ACT_CONTRACT_BINDING", same, bound, expected=contract.sha256)


def _degrees_bound(receipt: ActivationReceipt, *, terms: Terms, binds: bool, pinned: bool) -> ProfileFinding:
    """A receipt without degrees is bound by its pin alone; without that it blocks (§18.6)."""
    severity = Severity.WARNS if pinned else Severity.BLOCKS
    member = Member(pointer="/ranks" if receipt.schema == OWN_SCHEMA else "/profile", value=receipt.profile)
    detail = "" if binds else "pinned by a release selection" if pinned else "no release selection pins it"
    expected = "TP and DCP as each rank's engine reports them"
    return terms.say("ACT_DCP_UNBOUND", binds, member, expected=expected, severity=severity, detail=detail)


def _evidence(receipt: ActivationReceipt, *, terms: Terms, own: bool) -> Iterator[ProfileFinding]:
    if own:
        yield from evidence_findings(receipt, terms=terms)
    else:
        member = Member(pointer="/evidence", value=None)
        yield terms.say("ACT_NO_EVIDENCE", False, member, expected="a digest behind each field")


def _fixture_like(
    receipt: ActivationReceipt, *, entry: ProfileEntry, contract: Contract, terms: Terms
) -> ProfileFinding:
    names = (
        loader_counter(entry, contract),
        "mtp_draft_tokens",
        "continuation_coalesced_groups",
        transport_counter(entry),
    )
    told = [[rank.value.get(name) for name in names] for rank in receipt.ranks]
    like = bool(told) and all(
        all(type(one) is int and one == same for one, same in zip(four, _FIXTURE, strict=True))
        for four in told
    )
    member = Member(pointer="/ranks", value="1, 8, 1, 1 on every rank" if like else "other counters")
    return terms.say(
        "ACT_FIXTURE_LIKE", not like, member, expected="counters of this run, not the validator's test"
    )


def _named_profile(path: str, *, contract: Contract) -> str:
    """The longest profile name a file name starts with; empty where it starts with none."""
    name = path.rpartition("/")[2]
    named = [one for one in contract.profiles if name.startswith((one + "-", one + "."))]
    return max(named, key=len, default="")


def _row(receipt: ActivationReceipt, index: int, found: tuple[ProfileFinding, ...]) -> RankRow:
    rank = receipt.ranks[index]
    failed = [
        one.pointer.removeprefix(rank.pointer + "/")
        for one in found
        if one.result is CheckResult.FAIL and one.pointer.startswith(rank.pointer + "/")
    ]
    return RankRow(
        pointer=rank.pointer,
        rank=shown(rank.value.get("rank")),
        values=MappingProxyType(
            {name: _shown(value) for name, value in rank.value.items() if name != "rank"}
        ),
        failed=tuple(dict.fromkeys(failed)),
    )


def _shown(value: ExactValue) -> str:
    return value if isinstance(value, str) and len(value) <= 100 else shown(value)


def _decoded(raw: bytes, *, rules: RuleSet) -> dict[str, ExactValue]:
    """The object; its schema is judged later, where the order of rules has it.

    Raises:
        ProfileDocumentError: no JSON as the rule set takes it, too large, or no object.
    """
    try:
        return read_profile_document(raw, subject="activation receipt", kind=DocumentKind.ACTIVATION).value
    except ProfileDocumentError as error:
        value = _loosely(raw, rules=rules, error=error)
        if not isinstance(value, dict):
            raise
        return value


def _loosely(raw: bytes, *, rules: RuleSet, error: ProfileDocumentError) -> ExactValue:
    """What is strict JSON of another schema; by the published rules also with NaN and infinity in it."""
    try:
        if error.code == "DOC_SCHEMA_UNKNOWN":
            return read_document(raw, limits=LIMITS).value
        if rules is RuleSet.UPSTREAM and error.code == "DOC_JSON_INVALID":
            return decode_exact(raw, subject="activation receipt", limits=replace(LIMITS, constants=True))
    except (DocumentError, FormatError):
        return None
    return None
