"""Receipts and verdicts for the pages: our own documents, and those of the corpus where it lies beside us."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy.orm import Session

from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.values import Basis
from app.receipts.service import Origin
from app.verdicts.service.submit import Submitted, submit
from tests.core import evidence_documents as made

GOOD, BAD, RESEARCH, OWN = made.IMAGE.removeprefix("sha256:"), "d7" * 32, "e9" * 32, "8b" * 32
HOSTILE = "<script>alert('x')</script>"
CORPUS = Path("/work/shared/evidence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A document with the place it stands at."""

    raw: bytes
    path: str
    repository: str = "example/evidence"
    commit: str = ""
    committed_at: datetime | None = None


def add_papers(session: Session, papers: Sequence[Paper], *, by: str = "dana") -> list[Submitted]:
    """Keep documents and judge them, as an import does."""
    return [_submitted(session, paper, by=by) for paper in papers]


def _submitted(session: Session, paper: Paper, *, by: str) -> Submitted:
    origin = Origin(
        repository=paper.repository,
        path=paper.path,
        commit=paper.commit,
        committed_at=paper.committed_at,
    )
    facts = document_facts(read_document(paper.raw))
    return submit(session, raw=paper.raw, facts=facts, origin=origin, by=by, grade=Basis.SELF_CONSISTENT)


def own_papers() -> list[Paper]:
    """Documents made here: image `GOOD` qualified for one scope, `BAD` rejected for the same question, one
    that claims research only, one of our own engine, one that is hostile."""
    research, own = made.fenced_observation(), made.own_receipt()
    research["runtime"]["image_id"] = f"sha256:{RESEARCH}"
    for rank in own["ranks"]:
        rank["runtime"]["image_config_id"] = f"sha256:{OWN}"
    every = {
        "single-restore": made.single_restore(),
        "wrong-answer": wrong_answer(),
        "fenced": research,
        "own": own,
        "hostile": hostile(),
    }
    return [Paper(raw=made.raw(one), path=f"runs/{name}.json") for name, one in every.items()]


def wrong_answer() -> made.Members:
    """The same case as the qualified one on another image, with another answer."""
    document = made.single_restore()
    document["artifact"]["image_id"] = f"sha256:{BAD}"
    document["case"] |= {"restore_oracle": "amber", "restore_response_sha256": made.response_digest(" amber")}
    return document


def hostile() -> made.Members:
    """Texts that would be markup if they were not escaped, and keys that are awkward in an address."""
    document = made.single_restore()
    document["artifact"]["image_id"] = made.OTHER_IMAGE
    document["profile"]["served_model"] = HOSTILE
    document["limitations"] = {HOSTILE: HOSTILE, "a/b ~ c": "x"}
    return document


def corpus() -> Iterator[Paper]:
    """Every document of the corpus that is JSON."""
    index = json.loads((CORPUS / "INDEX.json").read_bytes())
    for one in index["files"]:
        path = CORPUS / one["file"]
        if path.is_file() and not one["file"].startswith("_malformed"):
            yield Paper(
                raw=path.read_bytes(),
                path=one["path"],
                repository=one["repo"],
                commit=one.get("commit") or "",
            )
