"""Identity of documents as no corpus has them: malformed second places, names instead of revisions, ranks
without an image (evidence-model §5, §7.2, Appendix B.1).

Every case here is one that was judged wrong once.
"""

import pytest

from app.core.qualify.findings import Outcome
from app.core.qualify.verdict import Verdict
from tests.core import evidence_documents as made
from tests.core.judging import codes, judge
from tests.core.test_rules_unseen import after, blocking


@pytest.mark.parametrize("digest", ["ABCDEF" + "0" * 58, made.DIGEST.upper(), "0" * 64, made.DIGEST[:12], ""])
def test_a_malformed_digest_of_a_model_is_no_digest_that_is_left_out(digest: str) -> None:
    verdict = after(made.composition(), lambda d: d["model"].update(checkpoint_sha256=digest))
    assert verdict.outcome is Outcome.INCOMPLETE
    assert "DIGEST_MALFORMED" in codes(verdict)


@pytest.mark.parametrize("image", ["sha256:abc", "sha256:" + "0" * 64, made.IMAGE.upper(), 5])
def test_a_malformed_image_does_not_give_way_to_the_image_below_it(image: object) -> None:
    verdict = after(made.composition(), lambda d: d["runtime"].update(sparkcache_image_id=image))
    assert verdict.outcome is Outcome.INCOMPLETE
    assert "IDENTITY_INCOMPLETE:image" in codes(verdict)


def test_an_image_that_is_null_gives_way() -> None:
    verdict = after(made.composition(), lambda d: d["runtime"].update(sparkcache_image_id=None))
    assert verdict.outcome is Outcome.QUALIFIED


def test_a_registry_reference_with_a_malformed_digest_is_malformed() -> None:
    document = made.composition()
    document["runtime"]["image"] = "registry.example/lab/runtime@" + made.OTHER_IMAGE
    assert "NO_REGISTRY_DIGEST" not in codes(judge(document))
    document["runtime"]["image"] = "registry.example/lab/runtime@" + made.OTHER_IMAGE.upper()
    assert "DIGEST_MALFORMED" in blocking(judge(document))
    document["runtime"]["image"] = "registry.example/lab/runtime:tag"
    verdict = judge(document)
    assert (verdict.outcome, verdict.deployable_reason) == (Outcome.QUALIFIED, "NO_REGISTRY_DIGEST")


def test_only_plain_digits_name_a_degree() -> None:
    verdict = after(made.fenced_observation(), lambda d: d["runtime"].update(topology="TP\uff12/DCP\uff11"))
    assert {"TOPOLOGY_UNBOUND:tp", "TOPOLOGY_UNBOUND:dcp"} <= codes(verdict)


@pytest.mark.parametrize(
    "path", [("identity", "tp_degree"), ("identity", "dcp_degree"), ("live", "topology")]
)
def test_a_degree_said_at_one_of_two_places_is_unbound(path: tuple[str, str]) -> None:
    verdict = after(made.page_tail(), lambda d: d[path[0]].pop(path[1]))
    assert verdict.outcome is Outcome.INCOMPLETE
    assert {one.split(":")[0] for one in blocking(verdict)} == {"TOPOLOGY_UNBOUND"}


def test_a_schema_is_named_under_its_own_name() -> None:
    document = made.single_restore()
    document["$schema"] = document.pop("schema")
    verdict = judge(document)
    assert (verdict.outcome, codes(verdict) & {"SCHEMA_ABSENT"}) == (Outcome.NONE, {"SCHEMA_ABSENT"})


@pytest.mark.parametrize("image", [None, "", "sha256:abc"])
def test_a_rank_that_names_no_image_beside_one_that_does_is_unknown(image: object) -> None:
    document = made.own_receipt()
    document["ranks"][0]["runtime"]["image_config_id"] = image
    assert "IDENTITY_INCOMPLETE:image" in blocking(judge(document))


def smoke(target: str) -> Verdict:
    """A restart smoke with a status map, its model named by one text."""
    return judge(
        {
            "schema": "sparkring-glm53-jj-r7-gb10-tp4-smoke/v1",
            "status": {"sparkcache_restart_restore": "qualified"},
            "conditions": {
                "topology": {"tensor_parallel_size": 4, "decode_context_parallel_size": 1},
                "images": {"sparkcache": {"local_image_id": made.IMAGE}},
                "sparkcache_commit": made.COMMIT,
                "target": target,
            },
            "measurement": {
                "sparkcache_restart_restore": {
                    "sequence": "restart, then four requests",
                    "expected_and_observed_outputs": ["red", "blue"],
                    "exact_response_count": 2,
                    "worker_cache_service_ms": {"minimum": 1, "maximum": 2},
                }
            },
        }
    )


def test_a_model_named_without_a_revision_is_named_by_an_alias() -> None:
    assert "IDENTITY_ALIAS_ONLY" not in codes(smoke(made.MODEL))
    verdict = smoke("lab/model")
    assert (verdict.outcome, "IDENTITY_ALIAS_ONLY" in codes(verdict)) == (Outcome.QUALIFIED, True)
    assert "DIGEST_MALFORMED" in blocking(smoke("lab/model@" + made.COMMIT[:12]))
    assert "IDENTITY_INCOMPLETE:model" in blocking(smoke(" "))


def test_the_page_tail_validator_wants_the_revision() -> None:
    verdict = after(made.page_tail(), lambda d: d["live"].update(target_checkpoint="lab/model"))
    assert (verdict.outcome, "VALIDATOR_FAILED:field" in blocking(verdict)) == (Outcome.INCOMPLETE, True)
