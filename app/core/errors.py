"""Everything the core raises on purpose.

    CoreError                    subject, expected, found
    ├── StoreError               … and the stage of the lookup or restore that found it
    │   ├── FormatError          corrupt: bytes that are not what the format allows
    │   ├── IntegrityError       corrupt: well-formed bytes that differ from their digest or declaration
    │   ├── IncompatibleError    incompatible: a sound entry that is not the one asked for
    │   └── AbsentError          absent: nothing is filed there
    ├── DocumentError            an evidence document that cannot be read: pointer and offset of the offence
    ├── PlanError                a sound entry that cannot be restored within the given limits
    ├── DeviceError              a device refused, failed, or did not do what was planned
    └── ResourceError            the machine ran out of descriptors, memory or room

Corrupt, absent and incompatible are three outcomes everywhere (store-format §13.1, restore-contract §14).
Programming errors are not in the tree: they stay ``TypeError``, ``RuntimeError`` and friends.
"""

from enum import StrEnum

_SHOWN_CHARACTERS = 160


class Stage(StrEnum):
    """How far a reader had to go before it could say no (store-format §18), in this order."""

    METADATA = "metadata"
    SIZE = "size"
    CONTENT = "content"
    HEADER = "header"
    STREAM = "stream"


class CoreError(Exception):
    """An object, what was expected of it and what was found instead."""

    def __init__(self, subject: str, *, expected: str, found: str) -> None:
        super().__init__(subject, expected, found)
        self.subject = subject
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return f"{self.subject}: expected {self.expected}, found {self.found}"


class StoreError(CoreError):
    """An answer about a store entry; ``stage`` says which check gave it."""

    def __init__(self, subject: str, *, expected: str, found: str, stage: Stage = Stage.METADATA) -> None:
        super().__init__(subject, expected=expected, found=found)
        self.stage = stage


class FormatError(StoreError):
    """The bytes are not in the form the specification demands."""


class IntegrityError(StoreError):
    """The bytes are in form but differ from the digest or declaration that covers them."""


class IncompatibleError(StoreError):
    """The entry is sound but belongs to another identity, ABI, mode, context or span."""


class AbsentError(StoreError):
    """Nothing is filed under the asked name."""


class DocumentError(CoreError):
    """Bytes that are no evidence document (evidence-model §7.2, ``INVALID_JSON``).

    ``pointer`` is the JSON pointer of the first offence, ``offset`` its place in bytes; where the bytes
    as a whole are refused they are empty and 0.
    """

    def __init__(
        self, subject: str, *, expected: str, found: str, pointer: str = "", offset: int = 0
    ) -> None:
        super().__init__(subject, expected=expected, found=found)
        self.pointer = pointer
        self.offset = offset

    def __str__(self) -> str:
        place = f" at {self.pointer or 'the top'} (byte {self.offset})" if self.offset or self.pointer else ""
        return f"{self.subject}{place}: expected {self.expected}, found {self.found}"


class PlanError(CoreError):
    """The restore cannot be carried out within the limits it was given."""


class DeviceError(CoreError):
    """The device refused an order or did not do what was ordered."""


class ResourceError(CoreError):
    """The machine, not the store, stood in the way."""


def shown(value: object) -> str:
    """One foreign value for a message: its type made visible, its length bounded, its controls escaped."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}… ({len(text)} characters)"
