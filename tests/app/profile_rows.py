"""Profile documents for tests of the control plane: a contract with everything it refers to, made here."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from app.core.canonical_json import encode_canonical
from app.core.digest import Digest
from app.core.profiles.anchors import parse_anchors
from app.core.profiles.documents import DocumentKind
from app.core.profiles.launch import parse_launch
from app.core.profiles.overlay import OverlayOrder, check_overlay
from app.core.profiles.overlay_document import overlay_document
from app.core.qualify.values import Basis
from app.db.session import Database
from app.errors import Refused
from app.profiles.service import Place, add_document, read_bytes
from tests.core import profile_rig as rig

REAL = Path("/work/shared/profiles")
DOCUMENTS = "/api/v1/profiles/documents"
CONTRACT_PATH = "runtime/r33/profiles/profile-contract.json"
# Every profile of the made contract names a template of its degrees; cache profiles share it.
TEMPLATE_KEYS = {
    "SPARKRING_PROFILE_MODE": "custom",
    "MAX_MODEL_LEN": "1048576",
    "KV_CACHE_MEMORY_BYTES": "25769803776",
    "NUM_SPECULATIVE_TOKENS": "3",
    "LOAD_FORMAT": "instanttensor",
    "CUDAGRAPH_CAPTURE_SIZES": ",".join(map(str, rig.GRAPHS)),
    "NODE_RANK": "<rank>",
    "MASTER_ADDR": "<address>",
}


@dataclass(frozen=True)
class Paper:
    """A document as it would be sent."""

    raw: bytes
    path: str
    kind: str = ""
    repository: str = "example/spark"
    commit: str = ""

    @property
    def sha256(self) -> str:
        return rig.sha(self.raw)

    @property
    def parameters(self) -> dict[str, str]:
        said = {"path": self.path, "kind": self.kind, "repository": self.repository, "commit": self.commit}
        return {name: text for name, text in said.items() if text}


def template(*, tp: int, dcp: int, profile: str, **more: str) -> bytes:
    """A template of these degrees."""
    pairs = TEMPLATE_KEYS | {
        "SOURCE_IMAGE_PROFILE": profile,
        "TENSOR_PARALLEL_SIZE": str(tp),
        "DECODE_CONTEXT_PARALLEL_SIZE": str(dcp),
        "NODE_COUNT": str(tp),
        **more,
    }
    return b"# made for tests\n" + "".join(f"{k}={v}\n" for k, v in pairs.items()).encode()


def contract(**changes: Any) -> Paper:
    """The made contract; changes are pointers with `__` for `/`."""
    made = rig.contract()
    for pointer, value in changes.items():
        made = rig.put(made, pointer.replace("__", "/"), value)
    return Paper(raw=rig.dump(made), path=CONTRACT_PATH)


def templates() -> list[Paper]:
    folder = CONTRACT_PATH.rpartition("/")[0]
    made = (("tp2-dcp1", 2, 1), ("tp4-dcp1", 4, 1), ("tp4-dcp4", 4, 4))
    return [
        Paper(
            raw=template(tp=tp, dcp=dcp, profile=name),
            path=f"{folder}/{name}.env.example",
            kind="template",
        )
        for name, tp, dcp in made
    ]


def image_receipt() -> Paper:
    return Paper(raw=rig.dump(rig.image_receipt()), path="runtime/r33/public-image-receipt.json")


def activation(profile: str = "tp4-dcp4-sparkcache", **changes: Any) -> Paper:
    made = rig.activation(profile)
    for pointer, value in changes.items():
        made = rig.put(made, pointer.replace("__", "/"), value)
    return Paper(raw=rig.dump(made), path=f"runtime/r33/profiles/evidence/{profile}-activation.json")


def selection(*pinned: Paper) -> Paper:
    """A release selection that pins these documents."""
    made = {
        "schema": "sparkring-release-selection/v1",
        "id": "made-release",
        "selection": "published-image-with-profile-contract-overlay",
        "inputs": [{"path": one.path, "sha256": one.sha256} for one in pinned],
        "image": "registry.example/made@sha256:" + "4d" * 32,
    }
    return Paper(raw=rig.dump(made), path="runtime/releases/made-release/release.json")


def deployment(profile: str = "tp4-dcp4-sparkcache", **changes: Any) -> Paper:
    made = {
        "schema": "sparkring-deployment/v1",
        "id": f"made-{profile}",
        "title": "made",
        "recommendation": "retired",
        "status": "qualified",
        "configuration": {"format": "release-profile", "path": CONTRACT_PATH, "key": profile},
        "release": "runtime/releases/made-release/release.json",
        "evidence_scope": "what was tried",
        **changes,
    }
    return Paper(raw=rig.dump(made), path=f"profiles/made-{profile}/profile.json")


def everything() -> list[Paper]:
    """A contract with templates and image receipt, an activation, the release that pins it, a deployment."""
    own, act = contract(), activation()
    return [own, *templates(), image_receipt(), act, selection(own, act), deployment()]


def claim(subject: Paper, **changes: Any) -> Paper:
    made = {
        "schema": "sparkgate-claim/v1",
        "subject_sha256": subject.sha256,
        "pointer": "",
        "state": "withdrawn",
        "author": "ada",
        "at": "2026-11-30T12:00:00Z",
        "reason": "measured on another host",
        "replacement_sha256": None,
        **changes,
    }
    return Paper(raw=rig.dump(made), path=f"claims/{subject.sha256[:8]}-{made['state']}.json")


def overlay_check(folder: Path) -> Paper:
    """A check of an unpacked image in which one file was changed and one is missing."""
    site = rig.make_site(folder)
    (site.image / "opt/sparkring/bin/verify-candidate").write_bytes(b"another")
    (site.image / "opt/empty").unlink()
    order = OverlayOrder(
        lock_sha256=Digest(rig.sha(site.lock_path.read_bytes())),
        anchors=(parse_anchors(site.anchors()),),
        launch=parse_launch(rig.dump(site.launch())),
    )
    result = check_overlay(site.image, site.overlay, order=order)
    return Paper(raw=encode_canonical(overlay_document(result, rank=0)), path="checks/overlay-rank0.json")


def add_papers(session: Session, papers: Iterable[Paper], *, by: str = "dana") -> None:
    """Keep documents as an import does."""
    for paper in papers:
        kind = DocumentKind(paper.kind) if paper.kind else None
        place = Place(path=paper.path, repository=paper.repository, commit=paper.commit)
        add_document(
            session,
            raw=paper.raw,
            document=read_bytes(paper.raw, kind=kind, name=paper.path),
            place=place,
            by=by,
            grade=Basis.SELF_CONSISTENT,
        )


class ProfileApi:
    """The API of profiles with one key."""

    def __init__(self, client: TestClient, *, key: str) -> None:
        self.client = client
        self.headers = {"Authorization": f"Bearer {key}"}

    def add(self, paper: Paper, **parameters: str) -> Any:
        said = {**paper.parameters, **parameters}
        return self.client.post(DOCUMENTS, headers=self.headers, params=said, content=paper.raw)

    def fill(self, papers: list[Paper]) -> None:
        for paper in papers:
            answer = self.add(paper)
            assert answer.status_code in (200, 201), (paper.path, answer.text)

    def get(self, path: str, **parameters: Any) -> Any:
        return self.client.get(f"/api/v1/profiles{path}", headers=self.headers, params=parameters)

    def post(self, path: str, content: bytes, **parameters: Any) -> Any:
        url = f"/api/v1/profiles{path}"
        return self.client.post(url, headers=self.headers, params=parameters, content=content)


def real_papers() -> list[Paper]:
    """The real documents as an import sends them, in the order of their index."""
    listed = json.loads((REAL / "INDEX.json").read_bytes())["files"]
    return [
        Paper(
            raw=(REAL / one["path"]).read_bytes(),
            path=one["path"] if "*" in (one["repo_path"] or "*") else one["repo_path"],
            repository=one["repo"],
            commit=one["commit"] or "",
        )
        for one in listed
    ]


def add_real(database: Database) -> int:
    """Keep the real documents; returns how many are of kinds that profiles have no use for."""
    unknown = 0
    with database.transaction() as session:
        for paper in real_papers():
            try:
                add_papers(session, [paper])
            except Refused as error:
                if error.code != "document-unknown":
                    raise
                unknown += 1
    return unknown
