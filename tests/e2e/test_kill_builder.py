"""The control worker killed while it builds a bundle: the next one makes the same bytes, and nothing half
made is left."""

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from app.cli.services import control_service, with_values
from app.core.bundle.verify import VerifyOptions, verify_bundle
from app.core.digest import sha256
from app.core.dsse import fingerprint
from app.db.migrate import upgrade
from app.embedded import DatabaseUrls, create_database
from app.ledger.service.signing import read_signer
from app.processes import Child
from tests.app.evidence_rows import own_papers
from tests.conftest import database_urls
from tests.e2e import halting_control
from tests.e2e.conftest import free_port
from tests.e2e.installation import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

LEASE_S = 1.5
PLACES = (
    "before the first byte",
    "in the middle",
    "before the bundle has its name",
    "before it is written down",
)


class HaltingInstallation(Installation):
    """Web and a control worker that stops where it is told to."""

    @property
    def halts(self) -> Path:
        return self.home / "halts"

    @property
    def folder(self) -> Path:
        return self.home / "evidence"

    def start_control(self) -> None:
        spec = control_service(self.settings)
        argv = (sys.executable, "-m", halting_control.__name__, *spec.argv[spec.argv.index("celery") + 1 :])
        env = {**spec.env, halting_control.FOLDER: str(self.halts)}
        self.children["control"] = Child.start(replace(spec, argv=argv, env=env), home=self.home)

    def kill_at(self, place: str, *, export_id: str) -> None:
        """SIGKILL once the builder stands there; how far it was is seen in its folder."""
        reached = self.halts / halting_control.REACHED
        self.wait_for(reached.exists, what=f"{place} of {export_id}")
        assert reached.read_text() == place
        child = self.children.pop("control")
        os.kill(child.pid, signal.SIGKILL)
        child.stop()
        for file in self.halts.iterdir():
            file.unlink()

    def ask(self, *, size: int | None) -> dict[str, Any]:
        headers = {"Idempotency-Key": str(uuid4())}
        asked = self.api.post("/api/v1/evidence", json={"ledger_size": size}, headers=headers)
        return asked.raise_for_status().json()  # type: ignore[no-any-return]

    def export(self, export_id: str) -> dict[str, Any]:
        return self.api.get(f"/api/v1/evidence/{export_id}").raise_for_status().json()  # type: ignore[no-any-return]

    def finished(self, export_id: str) -> dict[str, Any]:
        self.wait_for(lambda: self.export(export_id)["done"], what=f"export {export_id}")
        return self.export(export_id)

    def tries(self, export_id: str) -> list[str]:
        """What lies in the folder of this export and is not its bundle."""
        names = {path.name for path in self.folder.iterdir() if export_id in path.name}
        return sorted(names - {f"{export_id}.tar"})


@pytest.fixture(scope="module")
def halting(
    postgres_server: DatabaseUrls, valkey_url: str, worker_id: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HaltingInstallation]:
    name = f"e2e_{worker_id}_kill_builder"
    create_database(postgres_server.admin, name=name)
    urls = database_urls(postgres_server, name=name)
    upgrade(urls.owner)
    home = tmp_path_factory.mktemp("home")
    running = HaltingInstallation(
        home, urls=urls, broker_url=valkey_url, stores=home / "stores", port=free_port()
    )
    running.settings = with_values(running.settings, {"lease_s": LEASE_S})
    running.halts.mkdir()
    try:
        running.start_web()
        for paper in own_papers():
            place = {"repository": paper.repository, "path": paper.path}
            running.api.post("/api/v1/receipts", params=place, content=paper.raw).raise_for_status()
        yield running
    finally:
        running.stop()


def test_a_builder_killed_anywhere_leaves_one_whole_bundle_and_nothing_else(
    halting: HaltingInstallation,
) -> None:
    """Each kill is of one export; whoever comes next finishes it, and is killed in the one after that."""
    assert halting.settings.ledger_key_file is not None
    key = str(fingerprint(read_signer(halting.settings.ledger_key_file).verifier.public))
    foreign = {f"{uuid4()}.tar", f".{uuid4()}.7.tar.unfinished", "notes.txt", ".hidden"}
    halting.folder.mkdir(mode=0o700)
    for name in foreign:
        (halting.folder / name).write_bytes(b"not ours")
    undisturbed = halting.ask(size=None)
    size = undisturbed["ledger_size"]
    halting.start_control()
    wanted = halting.finished(undisturbed["id"])["bundle"]
    bytes_wanted = (halting.folder / f"{undisturbed['id']}.tar").read_bytes()
    asked = [undisturbed["id"]]
    for place in PLACES:
        (halting.halts / place).touch()
        export_id = halting.ask(size=size)["id"]
        asked.append(export_id)
        halting.kill_at(place, export_id=export_id)
        assert halting.export(export_id)["state"] == "running"
        left = halting.tries(export_id)
        is_named = (halting.folder / f"{export_id}.tar").exists()
        assert is_named == (place == "before it is written down")
        assert len(left) == (not is_named), left
        halting.start_control()
        assert halting.finished(export_id)["bundle"] == wanted, place
        assert halting.tries(export_id) == [], place
        assert (halting.folder / f"{export_id}.tar").read_bytes() == bytes_wanted
    found = verify_bundle(halting.folder / f"{asked[-1]}.tar", options=VerifyOptions(key=key))
    assert (found.exit_code, list(found.findings)) == (0, [])
    assert (sha256(bytes_wanted), len(bytes_wanted)) == (wanted["sha256"], wanted["bytes"])
    assert {path.name for path in halting.folder.iterdir()} == foreign | {f"{one}.tar" for one in asked}
    assert {(halting.folder / name).read_bytes() for name in foreign} == {b"not ours"}
    _check_ends(halting, asked)


def _check_ends(halting: HaltingInstallation, asked: list[str]) -> None:
    """Each request has one end in the ledger; no retry is told twice."""
    answer = halting.api.get("/api/v1/ledger/entries", params={"start": 0, "limit": 1000})
    kinds = [entry["kind"] for entry in answer.raise_for_status().json()["entries"]]
    ours = [kind for kind in kinds if kind.startswith("evidence-")]
    assert ours == ["evidence-requested", "evidence-exported"] * len(asked)
    assert all(first != second for first, second in pairwise(ours))
