"""The answers and ranks of a case, with those of the document it points to (evidence-model §4.5, Appendix
B.1: split-page, composition).

A document is joined only if it is the one named: where the schema has a place for its digest, it must be
that one.
"""

from typing import Final

from app.core.qualify.facts import Case, DocumentFacts
from app.core.qualify.gates import Agreement, Oracle, OracleForm, RankForm, RankProof
from app.core.qualify.rules.rule import Judged
from app.core.qualify.values import UNMAPPED, Basis, Found

_ANSWERED: Final = (OracleForm.EXPECTED_AND_OBSERVED, OracleForm.SELF_CONSISTENT, OracleForm.ATTESTED)
"""Strongest first."""


def linked(judged: Judged) -> DocumentFacts | None:
    """The document that holds this case's answers, if it is known and is the one named."""
    pin = judged.case.oracle.elsewhere
    other = judged.around.linked.get(pin.pointer) if pin is not None else None
    if pin is None or other is None:
        return None
    if pin.sha256 == UNMAPPED:
        return other
    return other if isinstance(pin.sha256, Found) and pin.sha256.value == other.sha256 else None


def oracle(judged: Judged) -> Oracle:
    """The case's oracle; where it has no comparison of its own, the one of the linked document's cases."""
    own, other = judged.case.oracle, linked(judged)
    if other is None or own.form is OracleForm.EXPECTED_AND_OBSERVED:
        return own
    cases = [case for case in other.cases if _has_answers(case, judged)]
    if not cases:
        return own
    inexact = (case.oracle.agreement for case in cases if case.oracle.agreement is not Agreement.EXACT)
    return Oracle(
        form=min((case.oracle.form for case in cases), key=_ANSWERED.index),
        basis=_weakest([case.oracle.basis for case in cases]),
        agreement=next(inexact, Agreement.EXACT),
        answers=own.answers,
        comparisons=tuple(one for case in cases for one in case.oracle.comparisons),
        attested=own.attested + tuple(one for case in cases for one in case.oracle.attested),
        published=own.published,
        inconclusive=own.inconclusive,
        elsewhere=own.elsewhere,
    )


def rank_proof(judged: Judged) -> RankProof:
    """What is said per rank; where the case says nothing, what the linked document says."""
    own, other = judged.case.ranks, linked(judged)
    if own.form is not RankForm.NONE or other is None:
        return own
    for case in other.cases:
        if case.capability is judged.capability and case.ranks.form is not RankForm.NONE:
            return case.ranks
    return own


def _has_answers(case: Case, judged: Judged) -> bool:
    return case.capability is judged.capability and case.oracle.form in _ANSWERED


def _weakest(bases: list[Basis | None]) -> Basis | None:
    order = (None, Basis.ATTESTED, Basis.SELF_CONSISTENT, Basis.DEMONSTRATED)
    return min(bases, key=order.index)
