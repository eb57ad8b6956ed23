"""Documents without a schema string: recognised by their members alone, never by name or digest (Appendix
A, B.2).

The names are those of the table, so that the rest of the extraction is the same.
"""

from app.core.canonical_json import ExactValue

_ORACLE_REQUEST = frozenset({"expected_oracle", "observed_oracle", "prompt_sha256"})
_COMPONENT = frozenset({"artifact", "passed", "sha256"})
_PROFILE = frozenset({"profile", "hardware", "runtime", "model"})
_FORMER_PROFILE = frozenset({"profile", "image", "runtime", "model"})
_PINS = frozenset({"components", "release"})
_CONTINUATION = frozenset({"Conditions", "Measurement", "Result"})
_AB_RECORD = frozenset({"record", "instrument", "arms"})
_CACHE_PROBE = frozenset({"description", "script"})


def table_name(value: ExactValue) -> str:
    """The table's name for the shape of the document; ``(no schema)`` for one it does not know."""
    if isinstance(value, list):
        return _of_list(value)
    if not isinstance(value, dict):
        return "(no schema)"
    names = value.keys()
    for members, called in _BY_MEMBERS:
        if members <= names:
            return called
    return _of_inventory(value)


_BY_MEMBERS: tuple[tuple[frozenset[str], str], ...] = (
    (_ORACLE_REQUEST, "(oracle request)"),
    (_COMPONENT, "(component evidence)"),
    (_PROFILE, "(profile manifest)"),
    (_FORMER_PROFILE, "(profile manifest)"),
    (_PINS, "(pins)"),
    (_CONTINUATION, "(performance record)"),
    (_AB_RECORD, "(performance record)"),
    (_CACHE_PROBE, "(performance record)"),
)


def _of_list(value: list[ExactValue]) -> str:
    hashes = bool(value) and all(isinstance(element, dict) and _has_digest(element) for element in value)
    return "(hash list)" if hashes else "(no schema)"


def _has_digest(member: dict[str, ExactValue]) -> bool:
    return any(name.endswith("sha256") for name in member)


def _of_inventory(value: dict[str, ExactValue]) -> str:
    """A map of file names: every member names a target and its digests before, or the one it adds."""
    if value.keys() == {"modules"} and isinstance(value["modules"], dict):
        return "(plugin manifest)"
    members = [member for member in value.values() if isinstance(member, dict) and "target_path" in member]
    if not members or len(members) != len(value):
        return "(no schema)"
    if all("preimage_sha256" in member or "accepted_preimage_sha256" in member for member in members):
        return "(preimages)"
    return "(additions)" if all("sha256" in member for member in members) else "(no schema)"
