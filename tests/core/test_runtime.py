"""The document of a measured runtime: exactly its facts, each named when it is wrong."""

from typing import Any

import pytest

from app.core.errors import FormatError
from app.core.runtime import Runtime, first_difference

DOCUMENT = {
    "schema": "sparkgate-runtime/v1",
    "engine": "sparkgate",
    "engine_sha256": "a" * 64,
    "engine_files": 70,
    "source_sha256": "b" * 64,
    "source_files": 180,
    "image_config_id": "none",
    "python": "CPython 3.11.7",
    "numpy": "2.4.0",
    "cupy": "none",
    "machine": "aarch64",
    "system": "Linux 6.11",
}


@pytest.mark.parametrize("image", ["none", "unknown", "c" * 64])
def test_document_is_read_and_written(image: str) -> None:
    document = {**DOCUMENT, "image_config_id": image}
    assert Runtime.parse(document).to_document() == document


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": "sparkgate-runtime/v2"}, r"runtime\.schema: expected 'sparkgate-runtime/v1', found"),
        ({"more": 1}, r"runtime: expected exactly .* not known \['more'\]"),
        ({"engine_sha256": "a"}, r"runtime\.engine_sha256: expected 64"),
        ({"source_sha256": 5}, r"runtime\.source_sha256: expected 64"),
        ({"engine_files": True}, r"runtime\.engine_files: expected an integer"),
        ({"source_files": -1}, r"runtime\.source_files: expected an integer"),
        (
            {"image_config_id": "sha256:" + "c" * 64},
            r"runtime\.image_config_id, neither 'none' nor 'unknown'",
        ),
        ({"python": ""}, r"runtime\.python: expected 1 to 200"),
        ({"system": "two\nlines"}, r"runtime\.system: expected 1 to 200"),
    ],
)
def test_wrong_fact_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        Runtime.parse({**DOCUMENT, **changes})


@pytest.mark.parametrize("name", sorted(DOCUMENT))
def test_missing_fact_is_named(name: str) -> None:
    document = {key: value for key, value in DOCUMENT.items() if key != name}
    with pytest.raises(FormatError, match=rf"runtime\.{name}|missing \['{name}'\]"):
        Runtime.parse(document)


def test_first_difference_is_a_sentence() -> None:
    assert first_difference(DOCUMENT, found=dict(DOCUMENT)) is None
    other = {**DOCUMENT, "numpy": "1.0", "system": "x"}
    assert first_difference(DOCUMENT, found=other) == "runtime.numpy: expected '2.4.0', found '1.0'"
    assert first_difference({}, found={"a": None}) == "runtime.a: expected None, found None"
