"""All rules in the order they are asked, what each capability needs, and the version of it all.

The version is a digest over the declared codes with their rows, the rules with their versions, the gates
each capability needs and the tables that map documents: whatever can change a verdict without a change of
the document.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from app.core.canonical_json import JsonValue, encode_canonical
from app.core.digest import Digest, sha256
from app.core.qualify.codes import CODES
from app.core.qualify.facts import Capability
from app.core.qualify.findings import Gate
from app.core.qualify.rules import (
    activation,
    admission,
    control,
    counters,
    declared,
    fault,
    identity,
    integrity,
    isolation,
    kind,
    lifecycle,
    page_tail,
    restart,
    rollback,
    semantic,
    structural,
)
from app.core.qualify.rules.rule import Rule
from app.core.qualify.schema_table import table_bytes

DECISION_VERSION: Final = 8
"""Of what is decided outside rules: the order of rows, joining cases, deployable."""

RULES: Final[tuple[Rule, ...]] = (
    kind.it_is_a_receipt,
    lifecycle.it_is_not_withdrawn,
    declared.the_claim_is_qualified,
    declared.words_are_known,
    declared.something_stands_in,
    declared.admission_is_not_denied,
    declared.parts_were_rejected,
    kind.the_kind_has_no_ceiling,
    kind.it_is_about_the_cache,
    kind.claims_of_others_are_pointers,
    integrity.payload_digests_hold,
    integrity.pins_hold,
    identity.the_artifact_is_named,
    identity.the_model_is_named,
    identity.the_topology_is_bound,
    identity.digests_are_well_formed,
    identity.ranks_ran_one_image,
    identity.the_source_is_committed,
    identity.the_identity_is_one,
    identity.the_evidence_is_of_this_image,
    identity.the_asked_scope_is_this_one,
    structural.every_rank_is_there,
    structural.no_rank_failed,
    structural.ranks_do_not_diverge,
    structural.headlines_are_bound,
    structural.the_structure_is_verified,
    kind.values_beside_a_lower_claim,
    semantic.an_answer_is_recorded,
    semantic.the_answer_is_right,
    semantic.the_comparison_is_exact,
    semantic.how_good_the_answer_is,
    semantic.digests_are_explained,
    semantic.restores_have_answers,
    control.the_control_passed,
    rollback.the_way_back_was_walked,
    restart.a_process_was_replaced,
    fault.a_fault_was_survived,
    fault.the_answer_after_the_fault_is_right,
    fault.recovery_has_a_fault,
    fault.it_is_no_drill,
    isolation.other_scopes_restore_nothing,
    isolation.the_own_scope_restores,
    isolation.both_probes_are_there,
    counters.counters_are_zero,
    page_tail.the_validator_accepts,
    activation.activation_rules_hold,
    lifecycle.no_failure_is_known,
    lifecycle.remarks_are_heard,
    lifecycle.the_claim_still_stands,
    lifecycle.the_pull_was_clean,
    admission.the_image_is_published,
)

NEEDS: Final[Mapping[Capability, tuple[Gate, ...]]] = MappingProxyType(
    {
        Capability.RESTORE: (Gate.IDENTITY, Gate.STRUCTURAL, Gate.SEMANTIC),
        Capability.RECOVERY: (Gate.IDENTITY, Gate.FAULT, Gate.SEMANTIC),
        Capability.ISOLATION: (Gate.IDENTITY, Gate.ISOLATION),
        Capability.SERVING: (Gate.IDENTITY, Gate.SEMANTIC),
        Capability.CAPTURE: (Gate.IDENTITY, Gate.DRAIN),
        Capability.READINESS: (Gate.IDENTITY, Gate.READINESS),
        Capability.CAPACITY: (Gate.IDENTITY, Gate.SEMANTIC),
    }
)
"""Gates a capability needs (§5); others are shown and never block. Capabilities that are not here cannot
be qualified."""

_TABLES = ("schemas.json", "words.json", "phrases.json")


@cache
def ruleset_version() -> Digest:
    """The version every verdict carries."""
    document: JsonValue = {
        "decision": DECISION_VERSION,
        "codes": {code.name: [int(code.row), code.gate.value] for code in CODES.values()},
        "rules": {rule.name: [rule.version, *rule.codes] for rule in RULES},
        "needs": {capability.value: [gate.value for gate in gates] for capability, gates in NEEDS.items()},
        "tables": {name: str(sha256(table_bytes(name))) for name in _TABLES},
    }
    return sha256(encode_canonical(document))
