"""Tables, one family per file. Importing this package registers all of them.

Facts (layouts, sources, images, root documents, reports, events, readbacks' layers, receipts, verdicts,
the ledger) are inserted once; state (attempts, devices, sessions) changes. `FACT_TABLES` and `STATE_TABLES`
say which is which, and the migration grants the app role accordingly.
"""

from typing import Final

from app.db.base import Base
from app.models.accounts import Account, ApiKey, WebSession
from app.models.evidence import EvidenceExport
from app.models.images import Image, ImageUnjudged
from app.models.layouts import Layout
from app.models.ledger import LedgerCheckpoint, LedgerLeaf, LedgerNode
from app.models.manifests import ManifestLocation, ManifestPin, RootDocument, SnapshotRow
from app.models.nodes import Device, Node
from app.models.oracles import OracleQuestionRow
from app.models.profiles import ProfileDocument, ProfilePlace
from app.models.receipts import ImageIdentity, ReceiptOrigin, ReceiptRow
from app.models.requests import IdempotencyRecord
from app.models.restores import (
    RankAttempt,
    RankReadback,
    RankReportRow,
    Readback,
    Restore,
    RestoreAnswer,
    RestoreEvent,
)
from app.models.sources import SourceIdentityRow
from app.models.verdicts import (
    DeclarationRow,
    OperationalException,
    OperationalExceptionEnd,
    VerdictCurrent,
    VerdictRow,
)

FACT_TABLES: Final = (
    Layout,
    RootDocument,
    SnapshotRow,
    ManifestPin,
    Image,
    SourceIdentityRow,
    RankReportRow,
    RankReadback,
    RestoreEvent,
    OracleQuestionRow,
    RestoreAnswer,
    ReceiptRow,
    ReceiptOrigin,
    ImageIdentity,
    VerdictRow,
    DeclarationRow,
    OperationalException,
    OperationalExceptionEnd,
    ProfileDocument,
    ProfilePlace,
    LedgerLeaf,
    LedgerNode,
    LedgerCheckpoint,
)
STATE_TABLES: Final = (
    Account,
    ApiKey,
    Node,
    Device,
    ManifestLocation,
    Restore,
    RankAttempt,
    Readback,
    VerdictCurrent,
    EvidenceExport,
)
PASSING_TABLES: Final = (WebSession, IdempotencyRecord, ImageUnjudged)

__all__ = [
    "FACT_TABLES",
    "PASSING_TABLES",
    "STATE_TABLES",
    "Account",
    "ApiKey",
    "Base",
    "DeclarationRow",
    "Device",
    "EvidenceExport",
    "IdempotencyRecord",
    "Image",
    "ImageIdentity",
    "ImageUnjudged",
    "Layout",
    "LedgerCheckpoint",
    "LedgerLeaf",
    "LedgerNode",
    "ManifestLocation",
    "ManifestPin",
    "Node",
    "OperationalException",
    "OperationalExceptionEnd",
    "OracleQuestionRow",
    "ProfileDocument",
    "ProfilePlace",
    "RankAttempt",
    "RankReadback",
    "RankReportRow",
    "Readback",
    "ReceiptOrigin",
    "ReceiptRow",
    "Restore",
    "RestoreAnswer",
    "RestoreEvent",
    "RootDocument",
    "SnapshotRow",
    "SourceIdentityRow",
    "VerdictCurrent",
    "VerdictRow",
    "WebSession",
]
