"""What may come in about a few images, in whatever order: documents of every kind that bears on another, the
places they stood in, what people declare, new rules.

A script is drawn from a seed and played through the services; nothing of it knows what the rules make of it.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import pytest

from app.core.digest import sha256
from app.core.qualify import drafts, verdict
from app.core.qualify.facts import Capability
from app.core.qualify.values import Basis
from app.db.session import Database
from app.receipts.service import Origin, Submission
from app.receipts.service.stored import facts_of_bytes
from app.verdicts.service import rejudge
from app.verdicts.service.declare import declare
from app.verdicts.service.submit import submit_many
from tests.core import evidence_documents as made
from tests.core import evidence_more as more

FIRST, SECOND = made.IMAGE, made.OTHER_IMAGE
CHILD: Final = "sha256:" + "c9" * 32
OTHER_RULES: Final = "e" * 64
SUMMER: Final = datetime(2026, 6, 1, tzinfo=UTC)
_KNOWS_RULES: Final = (
    "app.core.qualify.verdict.ruleset_version",
    "app.core.qualify.composed_document.ruleset_version",
    "app.verdicts.service.judging.ruleset_version",
    "app.verdicts.service.rejudge.ruleset_version",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Bytes with the place they stood in. `day`: of the commit, it orders the versions of a path."""

    raw: bytes = field(repr=False)
    path: str = ""
    day: int = 0

    @property
    def digest(self) -> str:
        return str(sha256(self.raw))

    @property
    def submission(self) -> Submission:
        origin = None
        if self.path:
            at = SUMMER + timedelta(days=self.day)
            commit = f"{self.day:040x}"
            origin = Origin(repository="lab", path=self.path, commit=commit, committed_at=at)
        return Submission(raw=self.raw, facts=facts_of_bytes(self.raw), origin=origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Documents come in together; else something is declared about what came in so far, a part is judged
    again, or other rules hold from now on."""

    documents: tuple[Document, ...] = ()
    declared: tuple[str, ...] = ()
    capability: Capability = Capability.RESTORE
    rejudged: int = 0
    grade: Basis = Basis.SELF_CONSISTENT
    rules: str = ""


def _changed(document: made.Members, *changes: tuple[str, Any]) -> bytes:
    """The bytes of a document, some members set by their path."""
    for path, value in changes:
        *steps, last = path.split("/")
        place: Any = document
        for step in steps:
            place = place[step]
        place[last] = value
    return made.raw(document)


def _restores() -> Iterator[Document]:
    """Of either image: qualified, rejected, modest, of another source, of versions of one path."""
    answer = made.response_digest(" amber")
    for image in (FIRST, SECOND, CHILD):
        of = ("artifact/image_id", image)
        path = f"runs/{image[7:9]}.json"
        yield Document(raw=_changed(made.single_restore(), of), path=path, day=1)
        yield Document(
            raw=_changed(made.single_restore(), of, ("limitations", {"x": "later"})), path=path, day=3
        )
        yield Document(
            raw=_changed(made.single_restore(), of, ("status", "research-only")), path="runs/a1.json", day=2
        )
        wrong = (("case/restore_oracle", "amber"), ("case/restore_response_sha256", answer))
        yield Document(raw=_changed(made.single_restore(), of, *wrong))
        yield Document(raw=_changed(made.single_restore(), of, ("artifact/sparkcache_commit", "99" * 20)))
        yield Document(
            raw=_changed(made.single_restore(), of, ("artifact/sparkcache_tree", "98" * 20)), path="t.json"
        )
        unsaid = made.single_restore()
        del unsaid["status"]
        yield Document(raw=_changed(unsaid, of))


def _of_other_families() -> Iterator[Document]:
    """With cases, chains, links to other documents; of releases; our own; of no schema."""
    for name, document in {**made.every_document(), "isolation": made.isolation_run()}.items():
        yield Document(raw=made.raw(document), path=f"families/{name}.json".replace(" ", "-"), day=4)
    for document in (
        more.hybrid_cache(),
        more.named_answer(),
        more.release_qualification(),
        more.failed_start(),
    ):
        yield Document(raw=made.raw(document))
    answers = made.raw({"schema": "example/answers-v1", "answers": ["a"]})
    for digest in (str(sha256(answers)), "12" * 32):
        linking = more.split_page()
        linking["measurement"] |= {"client_result_path": "answers.json", "client_result_sha256": digest}
        yield Document(raw=made.raw(linking), path="families/split.json", day=5 if digest[:2] == "12" else 6)
    yield Document(raw=answers, path="families/answers.json", day=1)
    yield Document(
        raw=made.raw({"schema": "example/answers-v1", "answers": ["b"]}), path="families/answers.json", day=2
    )
    yield Document(raw=made.raw({"schema": "example/unknown-v1"}))
    for document in (made.selections(), made.isolation_run(), made.connector_job(), more.hybrid_cache()):
        # Cases of the same scopes once more, and nothing that takes the place of the others.
        yield Document(raw=made.raw({**document, "remark": "again"}))
    fewer = made.selections()
    del fewer["selections"][1]
    yield Document(raw=made.raw(fewer), path="families/selections.json", day=7)


def _of_publication() -> Iterator[Document]:
    """Digests in a registry, children that differ in labels only, failed pulls, withdrawn releases."""
    digest = "sha256:" + "3d" * 32
    for image in (FIRST, CHILD):
        for remark in range(3):
            yield Document(
                raw=made.raw(
                    {
                        "schema": "sparkring-image-publication/v1",
                        "status": "published-live-verified",
                        "registry_manifest_digest": digest,
                        "image_config_id": image,
                        "remark": f"{image} {remark}",
                    }
                )
            )
    for runtime, child, remark in (
        (FIRST, CHILD, 1),
        (FIRST, CHILD, 2),
        (SECOND, CHILD, 1),
        (CHILD, SECOND, 1),
    ):
        yield Document(
            raw=made.raw(
                {
                    "schema": "sparkring-shared-image-publication/v1",
                    "status": "published",
                    "image_config_id": child,
                    "runtime_build_config_id": runtime,
                    "runtime_layers_unchanged": True,
                    "runtime_configuration_except_labels_unchanged": True,
                    "registry_manifest_digest": digest,
                    "anonymous_pull_completed": remark == 1,
                    "remark": remark,
                }
            )
        )
    for verified in (True, False):
        upgrade = {
            "schema": "sparkring-bounded-upgrade-evidence/v1",
            "status": "qualified",
            "image_id": FIRST,
            "publication": {
                "image_id": FIRST,
                "image_reference": f"ghcr.io/lab/image@{digest}",
                "anonymous_pull_verified": verified,
            },
            "model": "alias",
            "topology": "TP2/DCP1",
            "restart_cached_tokens": 512,
            "ranks": [{"rank": rank, "restored_prefix_tokens": 512} for rank in range(2)],
        }
        yield Document(raw=made.raw(upgrade))
    for named in ({"release": "shared-2030.01.0"}, {"registry_manifest_digest": digest}):
        withdrawn = {"schema": "sparkring-prerelease-withdrawal/v1", "status": "withdrawn", "cause": "broken"}
        yield Document(raw=made.raw(withdrawn | named))


def _of_learning() -> Iterator[Document]:
    """Known failures; what names an older schema of the same artifact as superseded."""
    for image in (FIRST, CHILD):
        failed = {"image_id": image, "symptom": "stopped"}
        yield Document(raw=_changed(more.failed_start(), ("failure_observation", failed)))
    for schema in (
        "sparkring-glm53-dflash7-snapshot-v1-safe-validation/v1",
        "sparkring-functional-evidence/v1",
    ):
        yield Document(
            raw=made.raw(
                {
                    "schema": "sparkring-glm53-pr146-live-validation/v2",
                    "status": "research-only",
                    "artifact": {"image_id": FIRST},
                    "normalization": {"supersedes_schema": schema, "reason": "measured again"},
                }
            )
        )


def _claims(about: Sequence[Document]) -> Iterator[Document]:
    """Withdrawn and given back, of all of a document and of a place in it."""
    for number, one in enumerate(about):
        for day, state in ((1, "withdrawn"), (2, "evidenced"), (3, "superseded")):
            said = {
                "schema": "sparkgate-claim/v1",
                "subject_sha256": one.digest,
                "pointer": "/case" if day == 3 else "",
                "state": state,
                "author": "a person",
                "at": f"2026-09-1{day}T08:00:00Z",
                "reason": f"because {number}",
                "replacement_sha256": "cd" * 32 if state == "superseded" else None,
            }
            yield Document(raw=made.raw(said))


@cache
def documents() -> tuple[Document, ...]:
    """Everything there is to come in."""
    restores, families = tuple(_restores()), tuple(_of_other_families())
    claimed = (*restores[:2], *families[:5])
    every = (*restores, *families, *_of_publication(), *_of_learning(), *_claims(claimed))
    return tuple({one.digest: one for one in every}.values())


def drawn(seed: int, *, most: int, places: bool = True) -> list[Document]:
    """Some of them, in no order. With `places`, some a second time at another place or time."""
    draw = random.Random(seed)
    chosen = draw.sample(documents(), k=draw.randint(most // 2, most))
    for one in draw.sample(chosen, k=len(chosen) // 4) if places else ():
        path = draw.choice(
            [one.path or "copies/one.json", "copies/two.json", "runs/a1.json", "families/answers.json"]
        )
        chosen.append(Document(raw=one.raw, path=path, day=draw.randint(0, 9)))
    draw.shuffle(chosen)
    return chosen


def arriving(chosen: Sequence[Document], *, seed: int) -> Iterator[Step]:
    """These, one by one or several together."""
    draw, start = random.Random(seed), 0
    while start < len(chosen):
        together = draw.choice([1, 1, 2, 3, 6])
        yield Step(documents=tuple(chosen[start : start + together]))
        start += together


def script(seed: int, *, most: int) -> list[Step]:
    """Documents come in, and in between things are declared and judged again, of rules that change."""
    draw = random.Random(f"script {seed}")
    steps: list[Step] = []
    came: list[str] = []
    for one in arriving(drawn(seed, most=most), seed=seed):
        steps.append(one)
        came += [document.digest for document in one.documents]
        if draw.random() < 0.15:
            about = tuple(draw.sample(sorted(set(came)), k=min(len(set(came)), draw.randint(1, 3))))
            steps.append(
                Step(declared=about, capability=draw.choice([Capability.RESTORE, Capability.SERVING]))
            )
        if draw.random() < 0.25:
            steps.append(Step(rules=draw.choice(["other", "ours"])))
        if draw.random() < 0.4:
            grade = draw.choice([Basis.SELF_CONSISTENT, Basis.SELF_CONSISTENT, Basis.ATTESTED])
            steps.append(Step(rejudged=draw.randint(1, 3), grade=grade))
    return steps


@dataclass(slots=True)
class Stage:
    """Plays scripts. `grade` is the one that the control plane runs with; it changes when all is judged
    again."""

    database: Database
    monkeypatch: pytest.MonkeyPatch
    grade: Basis = Basis.SELF_CONSISTENT
    kept: set[str] = field(default_factory=set)

    def play(self, steps: Sequence[Step]) -> None:
        """All of it; ours are the rules in the end, whatever was judged by the others."""
        with self.monkeypatch.context() as rules:
            for step in steps:
                if step.rules:
                    rules.undo()
                if step.rules == "other":
                    _other_rules(rules)
                self._take(step)

    def _take(self, step: Step) -> None:
        if step.documents:
            submissions = [one.submission for one in step.documents]
            with self.database.transaction() as session:
                submit_many(session, submissions=submissions, by="ada", grade=self.grade)
            self.kept |= {one.digest for one in step.documents}
        if about := sorted(self.kept.intersection(step.declared)):
            with self.database.transaction() as session:
                declare(
                    session,
                    reason="meant for qualification",
                    digests=about,
                    capability=step.capability,
                    by="ada",
                    grade=self.grade,
                )
        if step.rejudged:
            self.grade = step.grade
        for _ in range(step.rejudged):
            rejudge.rejudge_part(self.database, grade=self.grade, size=3)


def _other_rules(rules: pytest.MonkeyPatch) -> None:
    """Rules of another version, which see fewer cases and say other things."""
    judge = verdict.judge_document

    def judged(facts: Any, **named: Any) -> Any:
        return list(judge(facts, **named))[:2]

    for name in _KNOWS_RULES:
        rules.setattr(name, lambda: OTHER_RULES)
    rules.setattr(drafts, "judge_document", judged)
