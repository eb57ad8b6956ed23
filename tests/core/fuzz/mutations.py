"""Ways to bend a store: bytes, structure, and structure that is made consistent again around the bend.

Digests inside a document may be made right again, digests of the content never are. So whatever a reader
still calls verified must be what it was.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import PurePosixPath
from random import Random
from typing import Any

from .cases import FuzzCase, Store

_OBJECTS = PurePosixPath("chunks")
_FILE_NAMES = frozenset({"sha256", "tail_segment_sha256", "base_tail_segment_sha256", "parent_sha256"})
_PREFIXES = {b"SPHP1\0": 6, b"SPHD1\0": 6, b"SPCKV001": 12}
_MAX_LENGTH = (1 << 32) - 1
_VALUES: tuple[Any, ...] = (
    *(-1, 0, 1, 2, 15, 16, 17, 255, 256, 257, 1 << 31, (1 << 63) - 1, 1 << 63, 10**30, 10**200),
    *(True, False, None, 0.0, 1.0, 4.0, 256.0, 1e308, -0.0),
    *("", "x", "\ud800", "\0", "é", "0" * 64, "A" * 64, "../" * 22, "0" * 64 + "\n"),
    *([], {}, [None], {"": None}, [[[[]]]]),
)
_TEXTS = (
    b"",
    b"\0",
    b"[" * 40,
    b"[" * 20_000,
    b"\xff",
    b"\\ud800",
    b"1e999",
    b"NaN",
    b'"',
    b"}",
    b",",
    b"-0",
)


def mutate(case: FuzzCase, *, random: Random) -> tuple[Store, str]:
    """A bent copy of an entry's store, and what was done to it."""
    store = dict(case.store)
    ways: list[Callable[[Store, FuzzCase, Random], str]] = [
        bend_bytes,
        bend_document,
        bend_document,
        bend_segment,
        bend_object,
        bend_header,
        bend_header,
        exchange_files,
    ]
    rounds = random.choice((1, 1, 1, 1, 1, 2, 3))
    done = [random.choice(ways)(store, case, random) for _ in range(rounds)]
    return store, ", ".join(done)


def bend_bytes(store: Store, case: FuzzCase, random: Random) -> str:
    """Change any file's bytes under its name."""
    path = _any_path(store, case=case, random=random)
    store[path] = _bent_bytes(store[path], random=random)
    return f"bytes of {path.name}"


def bend_document(store: Store, case: FuzzCase, random: Random) -> str:
    """Change the structure of the document, and sign it or not."""
    value = _decoded(store.get(case.document, b""))
    if value is None:
        return "nothing"
    bent, what = _bent_value(value, random=random)
    signed = random.randrange(5) > 0
    store[case.document] = _encoded(_signed(bent) if signed else bent, random=random)
    return f"document {what}{' signed' if signed else ''}"


def bend_segment(store: Store, case: FuzzCase, random: Random) -> str:
    """Change the structure of a segment and give it its new name everywhere."""
    paths = [path for path in store if path.suffix == ".spix"]
    if not paths:
        return bend_document(store, case, random)
    path = random.choice(sorted(paths))
    value = _decoded(store[path])
    if value is None:
        return "nothing"
    bent, what = _bent_value(value, random=random)
    _rehome(store, path=path, content=_encoded(bent, random=random))
    return f"segment {what}"


def bend_object(store: Store, case: FuzzCase, random: Random) -> str:
    """Change an object's bytes and give it its new name everywhere, so that it is authentic."""
    path = _any_object(store, case=case, random=random)
    if path is None:
        return "nothing"
    _rehome(store, path=path, content=_bent_bytes(store[path], random=random))
    return f"object {path.name[:8]}"


def bend_header(store: Store, case: FuzzCase, random: Random) -> str:
    """Change the JSON header of a stream or chunk, and make sizes and names right around it."""
    document = _decoded(store.get(case.document, b""))
    lists = list(_descriptor_lists(document))
    if not lists:
        return bend_object(store, case, random)
    holder, key = random.choice(lists)
    if "logical_start" in holder[key][0]:
        what = _bend_chunk(store, random.choice(holder[key]), random=random)
    else:
        what = _bend_stream(store, holder, key=key, random=random)
    store[case.document] = _encoded(_signed(document), random=random)
    return f"{key} header {what}"


def exchange_files(store: Store, case: FuzzCase, random: Random) -> str:
    """Two files carry each other's bytes, or one is gone."""
    first, second = (_any_path(store, case=case, random=random) for _ in range(2))
    if random.randrange(3) == 0:
        del store[first]
        return f"without {first.name[:8]}"
    store[first], store[second] = store[second], store[first]
    return f"exchanged {first.name[:8]}, {second.name[:8]}"


def _any_path(store: Store, *, case: FuzzCase, random: Random) -> PurePosixPath:
    if case.document in store and random.randrange(5) < 2:
        return case.document
    return random.choice(sorted(store))


def _any_object(store: Store, *, case: FuzzCase, random: Random) -> PurePosixPath | None:
    named = store.get(case.document, b"")
    paths = sorted(path for path in store if path.parent == _OBJECTS)
    wanted = [path for path in paths if path.stem.encode() in named] or paths
    return random.choice(wanted) if wanted else None


def _bent_bytes(content: bytes, *, random: Random) -> bytes:
    at, size = random.randrange(len(content) + 1), random.choice((1, 1, 2, 8, 64, 1000))
    way = random.randrange(6)
    if way == 0 or not content:
        return content[:at] + random.choice(_TEXTS) + content[at:]
    if way == 1:
        return content[:at]
    if way == 2:
        return content[:at] + content[at + size :]
    if way == 3:
        return content[:at] + content[at : at + size] * 2 + content[at + size :]
    changed = bytearray(content)
    place = min(at, len(content) - 1)
    changed[place] = changed[place] ^ (1 << random.randrange(8)) if way == 4 else random.randrange(256)
    return bytes(changed)


def _bent_value(value: Any, *, random: Random) -> tuple[Any, str]:
    """One change at one place of a JSON value."""
    places = list(_places(value))
    if not places:
        return random.choice(_VALUES), "replaced"
    holder, key = random.choice(places)
    way = random.choice(("value", "value", "near", "near", "delete", "repeat", "exchange", "key"))
    if way == "value":
        holder[key] = random.choice(_VALUES)
    elif way == "near":
        holder[key] = _near(holder[key], random=random)
    elif way == "delete":
        del holder[key]
    elif way == "exchange":
        other_holder, other = random.choice(places)
        one, two = deepcopy(holder[key]), deepcopy(other_holder[other])
        holder[key], other_holder[other] = two, one
    elif isinstance(holder, list):
        holder.insert(random.randrange(len(holder) + 1), holder[key])
    else:
        holder[f"{key}_" if way == "key" else random.choice(("", "schema", "parent"))] = holder[key]
    return value, f"{way} at {key}"


def _near(value: Any, *, random: Random) -> Any:
    if isinstance(value, bool | float) or value is None:
        return random.choice((0, 1, None, False))
    if isinstance(value, int):
        return random.choice(
            (value - 1, value + 1, value * 2, -value, float(min(value, 1 << 52)), str(value))
        )
    if isinstance(value, str):
        return random.choice(
            (value.upper(), value[:-1], f"{value}\n", value[::-1], [value], hash_of(value.encode()))
        )
    if isinstance(value, list):
        return random.choice((value[1:], value[:-1], value[::-1], [*value, *value], {"0": value}))
    return random.choice(([value], list(value), {}))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every holder and key of a JSON value, outermost first."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])


def _descriptor_lists(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Every list of descriptors, with the object that holds it."""
    for holder, key in _places(value):
        items = holder[key]
        if (
            isinstance(holder, dict)
            and isinstance(items, list)
            and items
            and all(_is_descriptor(item) for item in items)
        ):
            yield holder, key


def _is_descriptor(item: Any) -> bool:
    return (
        isinstance(item, dict) and isinstance(item.get("sha256"), str) and isinstance(item.get("bytes"), int)
    )


def _bend_chunk(store: Store, descriptor: dict[str, Any], *, random: Random) -> str:
    path = _OBJECTS / f"{descriptor['sha256']}.spcc"
    content, what = _with_bent_header(store.get(path, b""), random=random)
    store[_OBJECTS / f"{hash_of(content)}.spcc"] = content
    descriptor |= {"sha256": hash_of(content), "bytes": len(content)}
    return what


def _bend_stream(store: Store, holder: dict[str, Any], *, key: str, random: Random) -> str:
    """The stream cut anew into objects of the stated size, with the digest over all of it made right."""
    word = key.removesuffix("_objects")
    parts = [store.get(_OBJECTS / f"{item['sha256']}.spcc", b"") for item in holder[key]]
    content, what = _with_bent_header(b"".join(parts), random=random)
    step = holder.get(f"{word}_object_bytes")
    step = step if isinstance(step, int) and step > 0 else 1 << 26
    pieces = [content[at : at + step] for at in range(0, min(len(content), step * 1000), step)]
    for piece in pieces:
        store[_OBJECTS / f"{hash_of(piece)}.spcc"] = piece
    holder[key] = [
        {
            "sha256": hash_of(piece),
            "bytes": len(piece),
            "encoded_start": at * step,
            "encoded_end": at * step + len(piece),
        }
        for at, piece in enumerate(pieces)
    ]
    holder[f"{word}_encoded_bytes"], holder[f"{word}_sha256"] = len(content), hash_of(content)
    return what


def _with_bent_header(content: bytes, *, random: Random) -> tuple[bytes, str]:
    """Magic, length and JSON at the start of a stream or chunk, with one of them changed."""
    at = next((size for magic, size in _PREFIXES.items() if content.startswith(magic)), None)
    if at is None or len(content) < at + 4:
        return _bent_bytes(content, random=random), "bytes"
    (length,) = struct.unpack_from("<I", content, at)
    body, payload = content[at + 4 : at + 4 + length], content[at + 4 + length :]
    value = _decoded(body)
    if value is None or random.randrange(7) == 6:
        return content[:at] + struct.pack(
            "<I", random.choice((0, 1, min(length + 1, _MAX_LENGTH), _MAX_LENGTH))
        ) + body + payload, "length"
    bent, what = _bent_value(value, random=random)
    body = _encoded(bent, random=random)
    return content[:at] + struct.pack("<I", len(body)) + body + payload, what


def _rehome(store: Store, *, path: PurePosixPath, content: bytes) -> None:
    """A content-named file with other bytes, under its new name wherever a file is named, all signed anew.

    A stream's digest stays what it was, also where it is that of its only object.
    """
    old, new = path.stem, hash_of(content)
    del store[path]
    store[path.with_name(f"{new}{path.suffix}")] = content
    for other, text in list(store.items()):
        value = _decoded(text) if other.suffix == ".json" and old.encode() in text else None
        if value is not None:
            for holder, key in _places(value):
                if holder[key] == old and key in _FILE_NAMES and (key != "sha256" or _is_descriptor(holder)):
                    holder[key] = new
            store[other] = canonical(_signed(value))


def _signed(value: Any) -> Any:
    """The digests of a document over itself and over what is embedded in it, made right."""
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("base_root"), dict):
        value["base_root"] = _signed(value["base_root"])
        value["base_root_sha256"] = hash_of(canonical(value["base_root"]))
    if "metadata_sha256" in value:
        covered = {key: item for key, item in value.items() if key != "metadata_sha256"}
        value["metadata_sha256"] = hash_of(canonical(covered))
    return value


def _decoded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _encoded(value: Any, *, random: Random) -> bytes:
    if random.randrange(10) < 9:
        return canonical(value)
    return json.dumps(value, indent=random.choice((None, 1)), sort_keys=random.choice((True, False))).encode()


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
