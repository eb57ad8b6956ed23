"""A document to its facts (evidence-model §4, appendices A and B).

The schema string alone picks the entry of the table; a document without one is taken by the shape of its
members. An unknown schema gives a document of kind ``unknown``: kept, shown, never counting. Nothing here
raises for what a document holds: a field that is gone or bent becomes a missing fact.
"""

from collections.abc import Sequence

from app.core.errors import DocumentError
from app.core.qualify.claim import Claim, claim_of
from app.core.qualify.document import Document, canonical_digest, schema_member
from app.core.qualify.facts import Capability, Case, DocumentFacts, Kind, SchemaFacts
from app.core.qualify.families.activation import activated_subject, activation
from app.core.qualify.families.carriers import carriers
from app.core.qualify.families.cases import cases
from app.core.qualify.families.composition import composed_case, composed_subject
from app.core.qualify.families.context import Context
from app.core.qualify.families.identity import malformed_manifests, registry_pairs, subject_of
from app.core.qualify.families.lifecycle import admission, lifecycle, remarks, statements
from app.core.qualify.families.links import pins
from app.core.qualify.families.page_tail import page_tail_chain
from app.core.qualify.families.schemaless import table_name
from app.core.qualify.families.timing import timings
from app.core.qualify.gates import EmbeddedDigest
from app.core.qualify.reading import Place, name
from app.core.qualify.schema_table import Phrase, SchemaEntry, Spec, phrases, schema_entry
from app.core.qualify.subject import Subject
from app.core.qualify.values import Fact, Found, Gap, Missing


def document_facts(document: Document, *, annotations: Sequence[Phrase] = ()) -> DocumentFacts:
    """Everything the rules may know about the document.

    Args: document: the decoded document. annotations: annotations of people for this very document,
    beside the phrases shipped with the rules.
    """
    schema = _schema_fact(document)
    called = schema.value if isinstance(schema, Found) else table_name(document.value)
    entry = schema_entry(called) or _unknown(called)
    reader = Context(document=document, entry=entry, phrases=(*phrases(called), *annotations))
    return _read(reader, schema)


def _read(reader: Context, schema: Fact[str]) -> DocumentFacts:
    place, spec, entry = reader.top, reader.spec, reader.entry
    pairs = registry_pairs(place, spec)
    malformed = malformed_manifests(place, spec)
    subject = _subject(reader, subject_of(place, spec.part("subject"), pairs=pairs, malformed=malformed))
    every = tuple(_case(reader, case) for case in cases(reader, subject))
    return DocumentFacts(
        sha256=reader.document.sha256,
        canonical_sha256=canonical_digest(reader.document.value),
        byte_count=reader.document.byte_count,
        schema=_schema_facts(reader, schema, every),
        subject=subject,
        carriers=carriers(place, spec, of_cases=tuple(word for case in every for word in case.carriers)),
        cases=every,
        admission=admission(place, spec),
        lifecycle=lifecycle(place, spec),
        registry=pairs,
        pins=pins(place, spec),
        payloads=_payloads(every),
        remarks=remarks(reader),
        statements=statements(place, spec),
        timings=timings(reader.document.value),
        chain=page_tail_chain(place) if entry.family == "page-tail" else None,
        activation=activation(place) if entry.family == "activation" else None,
        claim=_claim(reader) if entry.family == "claim" else None,
    )


def _claim(reader: Context) -> Claim | None:
    """None where the document is not in the form of a claim: then it claims nothing."""
    try:
        return claim_of(reader.document)
    except DocumentError:
        return None


def _subject(reader: Context, subject: Subject) -> Subject:
    if reader.entry.family == "composition":
        return composed_subject(reader.top, subject)
    return activated_subject(reader.top, subject) if reader.entry.family == "activation" else subject


def _case(reader: Context, case: Case) -> Case:
    return composed_case(reader.top, case) if reader.entry.family == "composition" else case


def _payloads(every: tuple[Case, ...]) -> tuple[EmbeddedDigest, ...]:
    return tuple(
        record.payload for case in every for record in case.ranks.records if record.payload is not None
    )


def _schema_fact(document: Document) -> Fact[str]:
    value = document.value
    if not isinstance(value, dict):
        return Missing(gap=Gap.ABSENT, pointer="/schema")
    return Place(document=value).fact(("/" + schema_member(value),), name)


def _schema_facts(reader: Context, schema: Fact[str], every: tuple[Case, ...]) -> SchemaFacts:
    entry = reader.entry
    by_case = reader.spec.says("capability_of_case") and every
    return SchemaFacts(
        schema=schema,
        kind=entry.kind,
        capability=every[0].capability if by_case else entry.capability,
        family=entry.family,
        ceilings=entry.ceilings,
        no_verdict=entry.no_verdict,
        sparkcache=entry.sparkcache,
        status_column=reader.spec.part("status").paths("document"),
        validator=entry.validator,
    )


def _unknown(called: str) -> SchemaEntry:
    absent = called.startswith("(")
    return SchemaEntry(
        name=called,
        kind=Kind.UNKNOWN,
        capability=Capability.UNKNOWN,
        family="unknown",
        ceilings=(),
        no_verdict="SCHEMA_ABSENT" if absent else "SCHEMA_UNKNOWN",
        sparkcache=True,
        validator="",
        spec=Spec({}),
    )
