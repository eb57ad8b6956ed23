"""A small bundle without a server: images, receipts, a declaration, an exception, an earlier head.

Made by a throw-away key of its own; for trying out the verifier, and for tests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.core.bundle.build import Built, BundleRequest, BundleSigner, build_bundle
from app.core.bundle.sample_log import SampleLog
from app.core.canonical_json import JsonObject, encode_canonical
from app.core.digest import sha256
from app.core.ledger.checkpoint import Checkpoint, NoteSigner, sign_checkpoint
from app.core.ledger.merkle import Frontier, Node, NodeReader, consistency_path, root_of
from app.core.ledger.proof import ConsistencyProof, encode_consistency
from app.core.qualify.facts import Capability
from app.core.signature import sign

ORIGIN: Final = "sample.sparkgate.example/log"
_IMAGES: Final = ("a1" * 32, "b2" * 32, "c3" * 32)
_RECEIPTS_OF_AN_IMAGE: Final = 10
_SCHEMA: Final = "sparkring-glm53-dflash7-snapshot-v1-safe-validation/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A log with the signed heads of its end and of an earlier size."""

    log: SampleLog
    signer: NoteSigner
    previous: int

    def checkpoint(self, size: int) -> bytes:
        """The signed head of the first `size` entries."""
        read = nodes_of(self.log.leaf_hashes()[:size])
        head = Checkpoint(origin=self.signer.name, size=size, root=root_of(size, read=read))
        return sign_checkpoint(head, signer=self.signer)

    def consistency(self) -> bytes:
        """The proof from the earlier head to the end."""
        size = len(self.log.leaves)
        path = consistency_path(self.previous, second=size, read=nodes_of(self.log.leaf_hashes()))
        return encode_consistency(
            ConsistencyProof(old_size=self.previous, path=tuple(path), checkpoint=self.checkpoint(size))
        )

    def build(self, target: Path, *, verifier: bytes) -> Built:
        """The bundle of everything."""
        size = len(self.log.leaves)
        return build_bundle(
            target,
            request=BundleRequest(name=self.signer.name, everything=True, start=0, size=size),
            signer=BundleSigner(
                sign=lambda message: sign(message, seed=self.signer.seed),
                public=self.signer.verifier.public,
                ledger_vkey=self.signer.verifier.vkey,
            ),
            log=self.log.leaves,
            read_receipts=lambda wanted: {one: self.log.documents[one] for one in wanted},
            checkpoint=self.checkpoint(size),
            previous=self.checkpoint(self.previous),
            consistency=self.consistency(),
            verifier=verifier,
        )


def make_sample(*, seed: bytes, receipts: int = 3) -> Sample:
    """A log signed with a key of this seed (32 bytes); about the last image there is no receipt.

    Args: receipts: how many restore receipts; each differs in its prompt.
    """
    log = SampleLog()
    images = [*_IMAGES, *(str(sha256(b"image %d" % one)) for one in range(receipts // _RECEIPTS_OF_AN_IMAGE))]
    for number, image in enumerate(images):
        log.add_image(config_id=image, title=f"runtime {number}", manifest_digest=str(sha256(image.encode())))
    previous = 0
    digests = []
    for number in range(receipts):
        raw = encode_canonical(_receipt(images[number % (len(images) - 1)], number=number))
        digests.append(
            log.add_receipt(raw, repository="sample", path=f"receipts/{number}.json", commit="ab" * 20)
        )
        previous = previous or len(log.leaves)
    log.declare(digests[:1], reason='=sample, "quoted"', capability=Capability.RESTORE)
    log.add_exception(config_id=_IMAGES[1], reason="a restore drill is due", days=7)
    return Sample(log=log, signer=NoteSigner(name=ORIGIN, seed=seed), previous=previous)


def nodes_of(hashes: Sequence[bytes]) -> NodeReader:
    """All nodes of a tree over these leaf hashes."""
    known: dict[Node, bytes] = {}
    frontier = Frontier()
    for place, hashed in enumerate(hashes):
        known[Node(0, place)] = hashed
        known.update(frontier.append(hashed))
    return lambda wanted: {node: known[node] for node in wanted if node in known}


def _receipt(image: str, *, number: int) -> JsonObject:
    """A restore on two ranks with its answer; the second wrong in every third."""
    answer = "green" if number % 3 < 2 else "red"
    prompt = str(sha256(f"prompt {number}".encode()))
    response = str(sha256(f" {answer}".encode()))
    source: JsonObject = {
        "image_id": f"sha256:{image}",
        "build_receipt_sha256": "e5" * 32,
        "sparkcache_commit": "c3" * 20,
        "sparkcache_tree": "d4" * 20,
        "sparkcache_source_sha256": "e5" * 32,
    }
    ranks: list[JsonObject] = [
        {
            "rank": rank,
            "digest_prefix": prompt[:12],
            "end_to_end_ms": 10 + rank,
            "service_ms": 9,
            "page_bytes": 4096,
            "outcome": "verified",
        }
        for rank in range(2)
    ]
    return {
        "schema": _SCHEMA,
        "status": "qualified",
        "artifact": source,
        "profile": {
            "served_model": "sample",
            "tensor_parallel_size": 2,
            "decode_context_parallel_size": 1,
            "kv_cache_dtype": "fp8",
            "publication_schema": "snapshot-v1",
            "storage_mode": "block_pages_v1",
        },
        "case": {
            "committed_tokens": 4096,
            "prompt_tokens": 4097,
            "context_digest": prompt,
            "prompt_sha256": prompt,
            "expected_oracle": "green",
            "publish_oracle": "green",
            "restore_oracle": answer,
            "publish_response_sha256": str(sha256(b" green")),
            "restore_response_sha256": response,
        },
        "rank_restore_evidence": [*ranks],
        "limitations": {"performance": "unsupported"},
    }
