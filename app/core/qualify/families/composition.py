"""``sparkring-sparkcache-composition/v1``: a recipe that embeds its evidence (Appendix B.1, B.3).

Its degrees may stand in the preferred profile, and its observed answer in a sentence that repeats the
expected one.
"""

import re
from dataclasses import replace
from typing import Final

from app.core.qualify.facts import Case
from app.core.qualify.gates import Attestation, Oracle, OracleForm
from app.core.qualify.pointer import step
from app.core.qualify.reading import Place, degree, name
from app.core.qualify.subject import Subject, Topology
from app.core.qualify.values import Basis, Found

_OF_THE_PROMPT: Final = "".join(rf"(?<!\b{word} )" for word in ("canary", "not", "never", "have")) + r"\b"


def composed_subject(place: Place, subject: Subject) -> Subject:
    """The subject with the DCP of the preferred profile, where the document has profiles."""
    preferred = place.fact(("/preferred_profile",), name)
    if not isinstance(preferred, Found) or isinstance(subject.topology.dcp, Found):
        return subject
    at = f"/profiles{step(preferred.value)}/decode_context_parallel_size"
    topology = subject.topology
    return replace(subject, topology=Topology(tp=topology.tp, dcp=place.fact((at,), degree), pp=topology.pp))


def composed_case(place: Place, case: Case) -> Case:
    """The case, with the answer attested where the result sentence says that the expected one was
    returned."""
    expected = next(
        (one.expected for one in case.oracle.comparisons if isinstance(one.expected, Found)), None
    )
    result = place.fact(("/evidence/result",), name)
    if case.oracle.form is not OracleForm.EXPECTED_ONLY or expected is None or not isinstance(result, Found):
        return case
    if not _says_returned(result.value, expected.value):
        return case
    attested = Attestation(pointer=result.pointer, says=True, text=result.value)
    return replace(case, oracle=_attested(case.oracle, attested))


def _attested(oracle: Oracle, attested: Attestation) -> Oracle:
    return replace(
        oracle,
        form=OracleForm.ATTESTED,
        basis=Basis.ATTESTED,
        attested=(*oracle.attested, attested),
        unsaid=tuple(at for at in oracle.unsaid if at != attested.pointer),
    )


def _says_returned(sentence: str, expected: str) -> bool:
    """``… and returned SPARKCACHE_OK:9540; …``: the whole answer, not the start of a longer one, and not that
    of the canary, nor one that did not come."""
    fixed = rf"{_OF_THE_PROMPT}returned (?:final content )?{re.escape(expected)}(?![\w:.-]*\w)"
    return re.search(fixed, sentence) is not None
