"""Whatever stands in a document or header: an answer, never an exception, never other content (issue 3)."""

import copy
import json
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.core.canonical_json import encode_canonical
from app.core.digest import sha256
from app.core.store.layout import object_path
from app.core.store.lookup import Depth, LookupOutcome
from app.core.store.verify import VerifyOutcome

from .rig import ENTRY_NAMES, MemoryFiles, StoreVector, content_of

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["0" * 64, "A" * 64, "0" * 64 + "\n", "../x", 256, 1024, 1, 0, -1]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
fuzzed = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def change(value: Any, data: st.DataObject) -> Any:
    """Walk to some place of a JSON value and put something else there, take it away, or double it."""
    if isinstance(value, dict | list) and value and data.draw(st.integers(0, 5)):
        keys = sorted(value) if isinstance(value, dict) else list(range(len(value)))
        key = data.draw(st.sampled_from(keys))
        changed = copy.copy(value)
        if data.draw(st.integers(0, 9)) == 0:
            del changed[key]
        else:
            changed[key] = change(value[key], data)
        return changed
    if isinstance(value, int) and data.draw(st.booleans()):
        return value + data.draw(st.sampled_from([-256, -1, 1, 256]))
    return data.draw(values)


def signed(document: Any) -> Any:
    if not isinstance(document, dict) or "metadata_sha256" not in document:
        return document
    covered = {key: value for key, value in document.items() if key != "metadata_sha256"}
    return covered | {"metadata_sha256": sha256(encode_canonical(covered))}


def judge(vector: StoreVector, *, sound: dict[str, str]) -> None:
    for depth in Depth:
        assert vector.lookup(depth).outcome in LookupOutcome
    found = vector.verify()
    assert found.outcome is not VerifyOutcome.VERIFIED or content_of(found) == sound
    assert vector.verify(layout=None).outcome in VerifyOutcome
    assert isinstance(vector.files, MemoryFiles)
    assert vector.files.open_now == 0


@pytest.mark.parametrize("name", sorted({name for name in ENTRY_NAMES if "rank" not in name}))
@given(data=st.data())
@fuzzed
def test_a_document_changed_anywhere(entries: dict[str, StoreVector], name: str, data: st.DataObject) -> None:
    vector = entries[name].in_memory()
    sound = content_of(vector.verify())
    document = json.loads(vector.memory[vector.document])
    changed = change(document, data)
    if isinstance(changed, dict) and isinstance(changed.get("base_root"), dict) and data.draw(st.booleans()):
        changed["base_root"] = signed(changed["base_root"])
        changed["base_root_sha256"] = sha256(encode_canonical(changed["base_root"]))
    vector.memory[vector.document] = encode_canonical(signed(changed))
    judge(vector, sound=sound)


@pytest.mark.parametrize(
    "name", ["flat-v2-single", "page-delta-v3-768", "legacy-pages-chunks", "legacy-rows-partial"]
)
@given(data=st.data())
@fuzzed
def test_a_header_changed_anywhere(entries: dict[str, StoreVector], name: str, data: st.DataObject) -> None:
    """The object's header is another one; every digest and size that covers it is made right again."""
    vector = entries[name].in_memory()
    sound = content_of(vector.verify())
    document = json.loads(vector.memory[vector.document])
    if name.startswith("legacy"):
        holder = data.draw(st.sampled_from(document["chunks"]))
        raw = reheaded(vector.memory[str(object_path(holder["sha256"]))], prefix=12, data=data)
        holder |= {"sha256": sha256(raw), "bytes": len(raw)}
    else:
        part = document["delta_stages"][0] if "delta" in name else document
        word = "delta" if "delta" in name else "snapshot"
        raw = reheaded(vector.memory[str(object_path(part[f"{word}_sha256"]))], prefix=6, data=data)
        holder = {"sha256": sha256(raw), "bytes": len(raw), "encoded_start": 0, "encoded_end": len(raw)}
        part |= {
            f"{word}_objects": [holder],
            f"{word}_sha256": sha256(raw),
            f"{word}_encoded_bytes": len(raw),
        }
    vector.memory[str(object_path(sha256(raw)))] = raw
    vector.memory[vector.document] = encode_canonical(signed(document))
    judge(vector, sound=sound)


def reheaded(raw: bytes, *, prefix: int, data: st.DataObject) -> bytes:
    """The file with its JSON header changed, or its first bytes."""
    if data.draw(st.integers(0, 5)) == 0:
        at = data.draw(st.integers(0, prefix + 3))
        return raw[:at] + data.draw(st.binary(min_size=1, max_size=3)) + raw[at + 1 :]
    (length,) = struct.unpack_from("<I", raw, prefix)
    start = prefix + 4
    body = encode_canonical(change(json.loads(raw[start : start + length]), data))
    return raw[:prefix] + struct.pack("<I", len(body)) + body + raw[start + length :]


@given(raw=st.binary(max_size=200))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_as_a_document(entries: dict[str, StoreVector], raw: bytes) -> None:
    for name in ("flat-v2-single", "legacy-rows-alias-4096"):
        vector = entries[name].in_memory()
        vector.memory[vector.document] = raw
        assert vector.lookup(Depth.METADATA).outcome is LookupOutcome.CORRUPT
