"""One image: its identity, the verdict over each exact scope with gates and findings, what to run instead."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session

from app.core.qualify.facts import Capability, DocumentFacts
from app.core.qualify.findings import Outcome
from app.dashboard import queries_answers, queries_evidence
from app.dashboard.access import ImagesVisitor
from app.dashboard.guidance import Guidance, guidance
from app.dashboard.images import IMPORTED
from app.dashboard.templating import page
from app.dashboard.verdict_view import VerdictView, verdict_views
from app.dashboard.verdict_words import CAUSES, GRADES, OUTCOMES, STATES, code_words, short_words
from app.errors import NotFound
from app.images import service as images
from app.models import Image, VerdictRow
from app.receipts.service import stored
from app.verdicts.service import current
from app.web.auth import Scope
from app.web.deps import ReadSession

router = APIRouter(prefix="/images", include_in_schema=False)

_CONFIG_ID: Final = re.compile(r"(sha256:)?[0-9a-f]{64}")
# So many receipts are read again for what they say about other images.
MOST_READ: Final = 12
_FIRST: Final = (Capability.RESTORE, Capability.SERVING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One link of the identity chain: what it is called, what it is a digest of, what is known of it."""

    name: str
    of: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a page is about: an image that is registered, or one that receipts name, or both.

    Attributes: release: what the receipts about one that is not registered call it, if anything.
    """

    config_id: str | None
    image: Image | None
    release: str | None = None

    @property
    def title(self) -> str:
        if self.image is not None:
            return self.image.title
        return self.release or f"Image {(self.config_id or '')[:12]}"


@router.get("/{key}")
def show_image(key: str, request: Request, session: ReadSession, login: ImagesVisitor) -> Response:
    subject = find_subject(session, key=key)
    views = current_views(session, config_id=subject.config_id)
    facts = facts_of(session, views=views)
    history = (
        queries_evidence.history_of_image(session, config_id=subject.config_id) if subject.config_id else []
    )
    return page(
        request,
        "image.html",
        login=login,
        now=login.now,
        subject=subject,
        image=subject.image,
        imported=IMPORTED,
        chain=identity_chain(subject, views=views, facts=facts),
        views=views,
        advice=guidance_of(session, views=views, facts=facts, subject=subject),
        history=history,
        drills=queries_answers.drills_of_image(session, config_id=subject.config_id)
        if subject.config_id
        else [],
        words={
            "outcomes": OUTCOMES,
            "states": STATES,
            "grades": GRADES,
            "causes": CAUSES,
            "code": code_words,
            "short": short_words,
        },
        may_declare=login.principal.may(Scope.IMAGES_WRITE),
    )


def find_subject(session: Session, *, key: str) -> Subject:
    """An image by its id or by its config id.

    Raises:
        NotFound: neither is registered, nor does a receipt name it.
    """
    if _CONFIG_ID.fullmatch(key):
        config_id = key.removeprefix("sha256:")
        image = queries_evidence.image_with_config(session, config_id=config_id)
        if image is None and not queries_evidence.is_known(session, config_id=config_id):
            raise NotFound(f"image {config_id}: not registered, and no receipt names it")
        names = queries_evidence.names_from_receipts(session, config_ids=[None if image else config_id])
        release, _ = names.get(config_id, (None, ""))
        return Subject(config_id=config_id, image=image, release=release)
    try:
        image_id = UUID(key)
    except ValueError:
        raise NotFound(f"image {key[:80]}: expected an id or the 64 digits of a config id") from None
    image = images.get_image(session, image_id=image_id)
    return Subject(config_id=image.config_id, image=image)


def current_views(session: Session, *, config_id: str | None) -> list[VerdictView]:
    """The verdict over each scope of an image: restores first, then serving, qualified before the rest."""
    if config_id is None:
        return []
    scopes = current.scopes_of_image(session, image_config_id=config_id)[: queries_evidence.MOST_OF_AN_IMAGE]
    parts = queries_evidence.parts_of_image(session, config_id=config_id)
    return verdict_views(sorted(scopes, key=_place), parts)


def facts_of(session: Session, *, views: Sequence[VerdictView]) -> dict[str, DocumentFacts]:
    """The facts of the receipts that decided, by digest."""
    digests = list(dict.fromkeys(digest for view in views for digest in view.row.receipts))[:MOST_READ]
    return stored.facts_of(session, digests=digests)


def guidance_of(
    session: Session,
    *,
    views: Sequence[VerdictView],
    facts: dict[str, DocumentFacts],
    subject: Subject,
) -> dict[UUID, Guidance]:
    """What to do, by verdict; what is known of the images to go back to is looked up once."""
    advice = {
        view.row.id: guidance(
            view,
            facts=[facts[one] for one in view.row.receipts if one in facts],
            manifest_digest=subject.image.manifest_digest if subject.image else None,
        )
        for view in views
    }
    others = {back.config_id for one in advice.values() for back in one.ways_back if back.config_id}
    known = queries_evidence.outcomes_of_images(session, config_ids=sorted(others))
    return {key: one.with_outcomes(known) for key, one in advice.items()}


def identity_chain(
    subject: Subject, *, views: Sequence[VerdictView], facts: dict[str, DocumentFacts]
) -> tuple[Link, ...]:
    """From what a registry is asked for down to the code; a link without facts is not known."""
    image = subject.image
    manifests = {
        pair.manifest_digest.value: digest
        for digest, one in facts.items()
        for pair in one.registry
        if pair.image.value.removeprefix("sha256:") == subject.config_id
    }
    registered = image.manifest_digest if image else None
    said = [("SHA-256", registered)] if registered else []
    said += [
        (f"by receipt {receipt[:12]}", digest.removeprefix("sha256:"))
        for digest, receipt in manifests.items()
        if digest.removeprefix("sha256:") != registered
    ]
    index = image.index_digest if image else None
    return (
        Link(
            name="Index digest",
            of="of the list of manifests, one per platform",
            facts=(("SHA-256", index),) if index else (),
        ),
        Link(
            name="Manifest digest",
            of="of one platform’s manifest: its configuration and layers",
            facts=tuple((name, value) for name, value in said if value),
        ),
        Link(
            name="Config id",
            of="of the image configuration: what a runtime reports of itself",
            facts=(("SHA-256", subject.config_id),) if subject.config_id else (),
        ),
        Link(
            name="Source identity",
            of="the code it was built from",
            facts=(*_registered_source(image), *_sources_said(views)),
        ),
    )


def _registered_source(image: Image | None) -> tuple[tuple[str, str], ...]:
    source = image.source if image else None
    if source is None:
        return ()
    parts = (
        ("repository", source.repository),
        ("commit", source.commit),
        ("tree", source.tree),
        ("source SHA-256", source.source_sha256),
    )
    return tuple((name, value) for name, value in parts if value)


def _sources_said(views: Sequence[VerdictView]) -> tuple[tuple[str, str], ...]:
    """What receipts say, as far as it differs between them every one of it."""
    texts = dict.fromkeys(view.row.source for view in views if view.row.source)
    names = {"sha256": "source SHA-256", "wheel": "wheel SHA-256"}
    pairs = dict.fromkeys(tuple(part.partition("=")[::2]) for text in texts for part in text.split())
    return tuple((f"{names.get(name, name)}, by receipts", value) for name, value in pairs)


def _place(row: VerdictRow) -> tuple[int, int, str, str]:
    capability = Capability(row.capability)
    first = _FIRST.index(capability) if capability in _FIRST else len(_FIRST)
    return (first, 0 if row.outcome == Outcome.QUALIFIED else 1, row.tp, row.dcp)
