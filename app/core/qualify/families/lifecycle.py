"""What a document says about releases, other receipts and failures, and what it wants known (§7.4, §7.5,
§8, B.3).
"""

from collections.abc import Iterator
from itertools import chain, islice

from app.core.canonical_json import ExactValue
from app.core.errors import shown
from app.core.qualify.facts import Admission, Lifecycle, Meaning, Remark, Statement, StatusClass, Withdrawal
from app.core.qualify.families.context import Context
from app.core.qualify.families.identity import labels_only, mentions
from app.core.qualify.pointer import last_step
from app.core.qualify.reading import Place, flag, image, manifest, name
from app.core.qualify.schema_table import Spec, status_class
from app.core.qualify.values import UNMAPPED, Basis, Found, Gap, Missing

_MOST_SENTENCES = 1000


def admission(place: Place, spec: Spec) -> Admission:
    """May the artifact be used, and is it published?"""
    part = spec.part("admission")
    return Admission(
        deployable=place.fact(part.paths("deployable"), flag, basis=Basis.ATTESTED),
        qualified=place.fact(part.paths("qualified"), flag, basis=Basis.ATTESTED),
        reason=place.fact(part.paths("reason"), name, basis=Basis.ATTESTED),
        published=_published(place, part),
        clean_pull=place.fact(part.paths("clean_pull"), flag, basis=Basis.ATTESTED),
    )


def lifecycle(place: Place, spec: Spec) -> Lifecycle:
    """Releases, supersession, withdrawal, other images."""
    part = spec.part("lifecycle")
    return Lifecycle(
        release=place.fact(part.paths("release"), name),
        withdrawal=_withdrawal(place, part.part("withdrawal")),
        supersedes_schema=place.fact(part.paths("supersedes_schema"), name),
        supersedes_reason=place.fact(part.paths("supersedes_reason"), name, basis=Basis.ATTESTED),
        measurements_changed=place.fact(part.paths("measurements_changed"), flag, basis=Basis.ATTESTED),
        mentions=mentions(place, spec),
        labels_only=labels_only(place, spec),
    )


def remarks(reader: Context) -> tuple[Remark, ...]:
    """Annotated sentences, and the fields the schema has for such facts."""
    structured = (remark for part in reader.spec.parts("remarks") for remark in _structured(reader.top, part))
    bounded = (islice(each, _MOST_SENTENCES) for each in (_annotated(reader), structured))
    return tuple(chain.from_iterable(bounded))


def statements(place: Place, spec: Spec) -> tuple[Statement, ...]:
    """The sentences about what was and what was not shown."""
    part = spec.part("statements")
    said = _statements(place, part.paths("established"), establishes=True)
    unsaid = _statements(place, part.paths("not_established"), establishes=False)
    return tuple(islice(chain(said, unsaid), _MOST_SENTENCES))


def _published(place: Place, spec: Spec) -> Found[bool] | Missing:
    """A boolean, a word, or a digest that is null because there is none."""
    for pointer, value in place.values(spec.paths("published")):
        if isinstance(value, bool):
            return Found(value=value, pointer=pointer, basis=Basis.ATTESTED)
        if isinstance(value, str):
            return Found(value=value.strip() == "published", pointer=pointer, basis=Basis.ATTESTED)
    for pointer, value in place.values(spec.paths("published_digest")):
        if value is None:
            return Found(value=False, pointer=pointer)
        if not isinstance(manifest(value), Gap):
            return Found(value=True, pointer=pointer)
    fact = place.fact(spec.paths("published") + spec.paths("published_digest"), flag)
    return fact if isinstance(fact, Missing) else UNMAPPED


def _withdrawal(place: Place, spec: Spec) -> Withdrawal | None:
    if not spec.members:
        return None
    return Withdrawal(
        manifest_digest=place.fact(spec.paths("manifest"), manifest),
        reason=place.fact(spec.paths("reason"), name, basis=Basis.ATTESTED),
        replacement_release=place.fact(spec.paths("replacement_release"), name),
        replacement_digest=place.fact(spec.paths("replacement"), manifest),
    )


def _annotated(reader: Context) -> Iterator[Remark]:
    for phrase, pointer, sentence in reader.every_annotated():
        yield Remark(
            meaning=phrase.meaning, pointer=pointer, basis=Basis.ATTESTED, text=sentence, phrase=phrase.name
        )


def _structured(place: Place, spec: Spec) -> Iterator[Remark]:
    every = (one for one in place.values(spec.paths("at")) if _holds(one[1], spec))
    for pointer, value in islice(every, 1) if spec.says("first_of") else every:
        yield Remark(
            meaning=Meaning(spec.text("meaning")),
            pointer=pointer,
            basis=Basis.DEMONSTRATED,
            text=value if isinstance(value, str) else shown(value),
            image=place.fact(spec.paths("image"), image),
        )


def _holds(value: ExactValue, spec: Spec) -> bool:
    """A remark holds where something stands, or the value is the named one, or a word of the named class."""
    if "is" in spec:
        expected = spec.members["is"]
        return type(value) is type(expected) and value == expected
    if "class" in spec:
        return isinstance(value, str) and status_class(value) is StatusClass(spec.text("class"))
    nothing = value is None or value is False or (isinstance(value, str) and not value.strip())
    return not nothing and value not in ([], {})


def _statements(place: Place, patterns: tuple[str, ...], *, establishes: bool) -> Iterator[Statement]:
    seen: set[str] = set()
    for pointer, value in place.values(patterns):
        if pointer in seen or not isinstance(value, str) or not value.strip():
            continue
        seen.add(pointer)
        key = last_step(pointer)
        # A map of capability → word says both: "performance: unsupported".
        named = "/limitations/" in pointer and not key.isdecimal()
        yield Statement(text=f"{key}: {value}" if named else value, pointer=pointer, establishes=establishes)
