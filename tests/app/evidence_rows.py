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
