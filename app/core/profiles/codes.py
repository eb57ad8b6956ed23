"""Every code a check of profiles may give: severity, group, what must hold (profile-contract §15, §18.3).

The table is closed: a test holds it against the specification. ``DOC_FIELD`` alone is ours, for a field of
the wrong shape in a kind of document that has no codes of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Severity(StrEnum):
    """What a failed check does."""

    BLOCKS = "B"
    WARNS = "W"


class Group(StrEnum):
    """What the check is about (§15, first column)."""

    DOCUMENTS = "documents"
    CONTRACT = "contract"
    TEMPLATE = "template"
    GUARDS = "guards"
    SITE = "site and rendering"
    NAMESPACE = "namespace"
    IMAGE = "image"
    FILES = "files"
    BUDGET = "budget"
    FABRIC = "fabric"
    ACTIVATION = "activation"
    RESTORE = "restore"
    CLAIMS = "claims"


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """``says`` is the one sentence that must hold for the check to pass."""

    name: str
    severity: Severity
    group: Group
    says: str


def _codes(group: Group, severity: Severity, **says: str) -> tuple[Code, ...]:
    return tuple(Code(name=n, severity=severity, group=group, says=text) for n, text in says.items())


_B: Final = Severity.BLOCKS
_W: Final = Severity.WARNS

_ALL: Final = (
    *_codes(
        Group.DOCUMENTS,
        _B,
        DOC_JSON_INVALID="The bytes are strict JSON: no merge markers, no key twice, only finite numbers.",
        DOC_SCHEMA_UNKNOWN="The document names a schema that is known here.",
        DOC_HASH_MISMATCH="The bytes have the digest they are pinned by.",
        DOC_PATH_UNSAFE="Every reference stays inside the allowed folder and passes no link.",
        DOC_TOO_LARGE="Size, depth and number of entries are within the limits.",
        DOC_FIELD="Every field has the form its kind of document demands.",
    ),
    *_codes(
        Group.DOCUMENTS,
        _W,
        DOC_UNPINNED="A release selection or the caller pins the document by its digest.",
        DOC_TIMEZONE="A field named as UTC holds UTC.",
    ),
    *_codes(
        Group.CONTRACT,
        _B,
        CT_LOCK_HASH="The artifact lock has the digest the contract pins.",
        CT_SOURCES="The sources of the receipt equal those the contract requires.",
        CT_RECEIPT_NAMES="The component receipts are exactly the required names, each a digest.",
        CT_PROFILE_UNKNOWN="The contract holds the profile.",
        CT_FIELD_MISSING="Every field of the contract that must be there is there.",
        CT_FIELD_VALUE="Every field of the contract has a permitted type and value.",
        CT_PINS_HASH="Mesh pins or transport manifest have the pinned digest.",
        CT_PARENT_UNKNOWN="The profile that is inherited from is in the contract.",
        CT_INHERIT_CYCLE="No profile inherits from itself, directly or through others.",
    ),
    *_codes(Group.CONTRACT, _W, CT_VERSION_SUPERSEDED="No newer contract is registered for the same image."),
    *_codes(
        Group.TEMPLATE,
        _B,
        TPL_SYNTAX="Every line is blank, a comment from column one, or KEY=VALUE.",
        TPL_DUP_KEY="No key stands twice in one file.",
        TPL_VALUE="Every value is the one the contract demands, read literally.",
        TPL_INHERIT_DEPTH="One level of inheritance gives the whole set of keys.",
        TPL_UNRESOLVED="No placeholder is left where a value is needed.",
    ),
    *_codes(
        Group.GUARDS,
        _B,
        GUARD_DCP_NAME="Name, contract entry, environment and command agree on TP and DCP.",
        GUARD_DCP_DIVIDES="DCP is 1, 2 or 4 and divides TP; the interleave fits it.",
        GUARD_CACHE_MODE="Cache, capture and access mode form one of the permitted arms.",
        GUARD_CAPACITY="Every bounded capacity has the value of the contract or template.",
        GUARD_NATIVE="Native libraries have the paths and digests of contract and receipt.",
        GUARD_LEASE="The lease contract is set where the cache needs it and nowhere else.",
        GUARD_TRANSPORT="Transport, fast paths and fabric settings fit the number of nodes.",
        GUARD_COMMON_ENV="Every container holds the common environment of the contract.",
        GUARD_DFLASH_DYNAMIC="No dynamic draft depth together with TP4 and DCP4.",
        GUARD_GRAPH_DERIVED="The graph sizes are those the engine derives.",
    ),
    *_codes(
        Group.SITE,
        _B,
        SITE_FIELDS="The site has the required fields, no unknown ones, each in form.",
        SITE_PROFILE_NOT_ALLOWED="Profile and site option are on the list of permitted ones.",
        SITE_DIAG_SHAPE="Cache diagnostics have exactly their three permitted keys and values.",
        SITE_PATH_UNSAFE="Every path of the site is absolute and has no forbidden part.",
        REN_OUTPUT_EXISTS="The output folder does not exist before rendering.",
        REN_FILE_DRIFT="Every rendered file and value is as it was rendered.",
        REN_RANK_ENV_REUSED="No two ranks share an environment.",
        REN_NOT_AUTHORIZED="A person approved the rendered plan.",
    ),
    *_codes(
        Group.NAMESPACE,
        _B,
        NS_DERIVED="The namespace is the one derived from image and profile.",
        NS_RANKS_DIFFER="All ranks use the same namespace.",
        NS_DIAG_ISOLATED="A diagnostic namespace differs from the derived one.",
        NS_DCP_COLLISION="No two deployments with other settings share a namespace on a host.",
    ),
    *_codes(
        Group.IMAGE,
        _B,
        IMG_ID_FORM="Image id and reference have the form of immutable ones.",
        IMG_ID_MISMATCH="Every place names the same image id.",
        IMG_PLATFORM="The platform is the required one.",
        IMG_FLAGS="Five flags are true, verification and qualification flags false.",
        IMG_NCCL="The NCCL version is the required one.",
        IMG_BUNDLE_BIND="The transport bundle is the one the image checked.",
        IMG_CAPABILITY="The required capabilities are bound and implemented.",
        IMG_PUBLICATION_AS_RECEIPT="No publication stands where an image receipt belongs.",
    ),
    *_codes(
        Group.FILES,
        _B,
        SL_HASH="The source lock has the expected digest and form.",
        SL_FILE_DRIFT="Every file the lock names has its digest, and there are no others.",
        OV_ROOT="The overlay folder holds contract and validator.",
        OV_ENTRYPOINT_MISSING="The overlay's entrypoint is there.",
        OV_ENTRYPOINT_NOT_SELECTED="The container starts the overlay's entrypoint.",
        OV_NOT_READONLY="Both overlay mounts are read-only.",
        OV_UNANCHORED="Every overlay file is anchored by a selection, the lock or a registered list.",
        OV_RANKS_DIFFER="All ranks mount the same overlay bytes.",
        OV_NOT_PERSISTED="The overlay survives a restart by the managed service.",
    ),
    *_codes(Group.FILES, _W, SL_VERIFY_MISSING="The image's own verifier ran without mounts on this host."),
    *_codes(
        Group.BUDGET,
        _B,
        MEM_BUDGET="The configured buffers fit their budget.",
        MEM_GATE="Available memory is at least the operator's floor.",
        ROWS_SPLIT="Prefill rows are split over TP exactly and not again over DCP.",
    ),
    *_codes(Group.BUDGET, _W, KV_POOL_WINDOW="The engine's pool is within 10 % of the receipted one."),
    *_codes(
        Group.FABRIC,
        _B,
        FAB_PLAN_MISSING="A DCP4 deployment has a registered fabric plan.",
        FAB_QP_COUNT="The plan has the number of queue pairs it must have.",
        FAB_ROUTES="Every rank has its routes.",
        FAB_DOMAIN="Every rank reaches both PCI domains.",
        FAB_MARKERS="Every rank has its markers.",
    ),
    *_codes(
        Group.ACTIVATION,
        _B,
        ACT_SCHEMA="Schema and the flag of passed checks are as demanded.",
        ACT_CONTRACT_BINDING="The receipt is bound to this contract by its digest.",
        ACT_RANK_SET="The ranks are exactly 0 … nodes - 1, as integers.",
        ACT_RANK_DUP="Every rank is listed once.",
        ACT_RANK_IMAGE="Every rank ran the receipt's image.",
        ACT_RANK_NCCL="Every rank mapped the required NCCL.",
        ACT_RANK_DOMAINS="Every rank used both host domains.",
        ACT_RANK_GRAPHS="Every rank captured exactly the profile's graph sizes.",
        ACT_RANK_COUNTER="Every counter of every rank is a positive number.",
        ACT_RANK_OWNER_ROWS="The owner rows of every rank hold the expected number.",
        ACT_SERVING="Limit, prefill with decode, and correctness are as demanded.",
        ACT_KV="The reported pool is positive.",
        ACT_LONG_PREFILL="The long prefill was long, repeated and without errors.",
        ACT_CACHE_COUNTER="Capture, restore and recovery counters are positive.",
        ACT_CACHE_PAYLOAD="The restored payload was correct.",
        ACT_CACHE_ENABLED="The cache was on for a cache profile.",
        ACT_CACHE_NOT_DISABLED="The cache was off for a profile without one.",
        ACT_EXTRA_SHAPE="Reuse and restore blocks are present and in form.",
        ACT_DCP_UNBOUND="The receipt itself binds TP and DCP.",
    ),
    *_codes(
        Group.ACTIVATION,
        _W,
        ACT_NO_EVIDENCE="Every field names the evidence behind it.",
        ACT_FIXTURE_LIKE="The counters are not those of the validator's own test.",
    ),
    *_codes(
        Group.RESTORE,
        _B,
        RST_RANK_MISSING="Every rank has a restore record.",
        RST_TOKENS_DIFFER="Every rank restored the same tokens, all that were offered.",
        RST_SOURCE_GPU="The restore came from disk.",
        RST_ANSWER="The answer after the restore is exact.",
        RST_RECREATED="Every rank is a new generation.",
        PFX_ZERO_HIT="The prefix case hit the cache.",
    ),
    *_codes(Group.RESTORE, _W, RST_EXIT_STATUS="Every container ended with the expected exit status."),
    *_codes(
        Group.CLAIMS,
        _W,
        CLM_AMENDED="No claim about the document was amended.",
        CLM_AFFECTED="No claim about the document is potentially affected.",
        CLM_WITHDRAWN="No claim about the document was withdrawn.",
        CLM_SUPERSEDED="No claim about the document was superseded.",
    ),
    *_codes(Group.CLAIMS, _B, CLM_OVERREACH="No claim states more than the record carries."),
)

CODES: Final[Mapping[str, Code]] = MappingProxyType({code.name: code for code in _ALL})
