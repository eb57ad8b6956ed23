"""The cases of a document: one restore block, every element of a list of them, or one that stands for the
whole.
"""

from collections.abc import Iterator
from itertools import islice

from app.core.qualify.facts import Capability, Case
from app.core.qualify.families.answers import oracle
from app.core.qualify.families.carriers import case_carriers
from app.core.qualify.families.conditions import (
    control,
    counters,
    drill,
    fault,
    isolation,
    restart,
    rollback,
    span,
)
from app.core.qualify.families.context import Context
from app.core.qualify.families.identity import overlaid
from app.core.qualify.families.ranks import rank_proof
from app.core.qualify.pointer import last_step
from app.core.qualify.reading import Place
from app.core.qualify.schema_table import Spec
from app.core.qualify.subject import Subject

MOST_CASES = 1024


def cases(reader: Context, subject: Subject) -> tuple[Case, ...]:
    """Every case the schema maps. A document of a schema with cases that has none gets an empty one: what
    its capability needs is then missing in it, not unasked. So does one with more cases than will be
    read."""
    specs = reader.spec.parts("cases")
    every = tuple(islice((case for spec in specs for case in _cases(reader, spec, subject)), MOST_CASES + 1))
    if len(every) > MOST_CASES:
        every = ()
    by_case = reader.spec.says("capability_of_case") and every
    if specs and not by_case and not any(case.capability is reader.entry.capability for case in every):
        empty = Case(name="document", pointer="", capability=reader.entry.capability, subject=subject)
        return (empty, *every)
    return every


def case_at(place: Place, spec: Spec, reader: Context, subject: Subject) -> Case:
    """The case at one place."""
    return Case(
        name=place.base.removeprefix("/") or "document",
        pointer=place.base,
        capability=Capability(spec.text("capability", reader.entry.capability.value)),
        subject=overlaid(subject, place, spec.part("subject")),
        carriers=case_carriers(place, spec),
        span=span(place, spec.part("span")),
        ranks=rank_proof(place, spec.part("ranks")),
        oracle=oracle(place, spec.part("oracle"), reader),
        control=control(place, spec.part("control")),
        rollback=rollback(place, spec.part("rollback")),
        restart=restart(place, spec.part("restart")),
        fault=fault(place, spec.part("fault"), reader),
        drill=drill(place, spec.part("drill")),
        isolation=isolation(place, spec.part("isolation")),
        drain=counters(place, spec.part("drain")),
        readiness=counters(place, spec.part("readiness")),
    )


def _cases(reader: Context, spec: Spec, subject: Subject) -> Iterator[Case]:
    for pattern in spec.paths("at") or ("",):
        for place in reader.top.places(pattern):
            if _applies(place, spec):
                yield case_at(place, spec, reader, subject)


def _applies(place: Place, spec: Spec) -> bool:
    """Whether the place is a case of this kind: by a member that is there, is not, or has one value."""
    if last_step(place.base) in spec.paths("not_named"):
        return False
    if any(not place.has(pattern) for pattern in spec.paths("when")):
        return False
    if any(place.has(pattern) for pattern in spec.paths("unless")):
        return False
    part = spec.text("id_contains")
    if part and not any(isinstance(value, str) and part in value for _, value in place.values(("id",))):
        return False
    equals = spec.part("equals")
    return not equals.members or any(
        value == equals.text("is") for _, value in place.values(equals.paths("at"))
    )
