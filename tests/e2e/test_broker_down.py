"""A broker that is away costs time, never a restore."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.core.store.synth import SynthesizedSnapshot
from app.embedded import EmbeddedValkey, make_home
from tests.e2e.installation import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    """A broker of this module's own, which its test may stop."""
    home: Path = tmp_path_factory.mktemp("broker")
    make_home(home)
    server = EmbeddedValkey(home)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def valkey_url(broker: EmbeddedValkey) -> str:
    return broker.start()


def test_broker_that_is_down_at_post_time_loses_nothing(
    installation: Installation, small_store: SynthesizedSnapshot, broker: EmbeddedValkey, valkey_url: str
) -> None:
    context, layout = str(small_store.context_digest), str(small_store.layout.sha256)
    broker.stop()
    restore_id = installation.start_restore(context, layout=layout)
    restore = installation.restore(restore_id)
    assert restore["state"] == "running"
    assert {attempt["state"] for attempt in restore["attempts"]} == {"waiting"}
    assert broker.start() == valkey_url
    assert installation.finish(restore_id, within_s=90)["outcome"] == "restored"
    assert installation.devices_free()
