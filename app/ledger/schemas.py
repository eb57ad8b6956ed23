"""JSON shapes of the ledger."""

from datetime import datetime

from pydantic import Field

from app.web.schemas import Hex64, Resource


class CheckpointResource(Resource):
    size: int
    root: Hex64
    created_at: datetime


class HeadResource(Resource):
    size: int = Field(description="number of entries", examples=[1042])
    root: Hex64 = Field(description="RFC 6962 root over all of them")
    origin: str | None = Field(description="the log's name in its checkpoints; null without a key")
    key: str | None = Field(
        description="vkey checkpoints are verified with; null without a key",
        examples=["sparkgate.local/5f0c1d4e+a1b2c3d4+AWq1…"],
    )
    latest_checkpoint: CheckpointResource | None = Field(description="the largest that was handed out")


class EntryResource(Resource):
    index: int = Field(examples=[1041])
    kind: str = Field(examples=["restore-ended"])
    document: str = Field(description="the bytes that are hashed, base64")
    leaf_hash: Hex64 = Field(description="SHA-256 of 0x00 and these bytes")
    created_at: datetime


class EntryList(Resource):
    entries: list[EntryResource]
    next_start: int | None = Field(description="where to go on; null where the log ends")
    size: int = Field(description="number of entries of the log when this was read")
