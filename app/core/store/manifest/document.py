"""What every kind of document is judged with: named fields, refusals that name them (store-format §7)."""

from dataclasses import dataclass
from enum import StrEnum

from app.core.canonical_json import (
    JsonObject,
    JsonValue,
    decode_canonical,
    encode_canonical,
    expect_int,
    expect_list,
    expect_object,
)
from app.core.digest import Digest, sha256
from app.core.errors import FormatError, IncompatibleError, IntegrityError, shown
from app.core.store.identity import CacheIdentity, IdentityForm, parse_identity

FORMAT_ABI = 1
MAX_NUMBER = 2**63 - 1
# One count per layer group; as many groups as a page layout may have.
MAX_COUNTS = 4_096

ROOT_SUBJECT = "root document"


class RootKind(StrEnum):
    """What a lookup reports to have found (store-format §7)."""

    MANIFEST = "manifest"
    PAGE_SNAPSHOT = "page_snapshot"
    PAGE_DELTA = "page_delta"
    PREFIX_ALIAS = "prefix_alias"


class StorageMode(StrEnum):
    """How an entry's content is cut (store-format §4)."""

    PAGES = "block_pages_v1"
    ROWS = "per_token_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The question a document must be the answer to.

    Attributes:
        identity: the asked identity, or ``None`` where only its key or nothing of it is known.
        context_digest: the asked digest, which is also the file's name.
        storage_key: of the asked identity, if that is all one knows of it; without both the stored identity
            is judged by itself.
    """

    identity: CacheIdentity | None
    context_digest: Digest
    storage_key: Digest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One JSON object under judgement.

    Attributes:
        fields: the object as decoded from its canonical spelling.
        sha256: digest of that spelling, which is the digest of the file.
        subject: what carries it, for messages.
    """

    fields: JsonObject
    sha256: Digest
    subject: str

    @property
    def schema(self) -> JsonValue:
        """The value the kind is decided by; ``None`` also where there is no such key."""
        return self.fields.get("schema")

    def named(self, key: str) -> str:
        """A field, for messages."""
        return f"{self.subject}.{key}"

    def require_keys(self, keys: frozenset[str]) -> None:
        """Exactly these keys, no less and no more.

        Raises:
            FormatError: a key is missing or additional.
        """
        expect_object(self.fields, subject=self.subject, keys=keys)

    def require_equal(self, key: str, *, wanted: JsonValue) -> None:
        """The value that was asked for, compared as canonical bytes: ``True == 1`` (store-format §5.4).

        Raises:
            IncompatibleError: any other value, of whatever type.
        """
        value = self.fields[key]
        if encode_canonical(value) != encode_canonical(wanted):
            raise IncompatibleError(self.named(key), expected=shown(wanted), found=shown(value))

    def require_constant(self, key: str, *, wanted: str) -> None:
        """A text that a document of this kind always carries.

        Raises:
            FormatError: any other value.
        """
        if self.fields[key] != wanted:
            raise FormatError(self.named(key), expected=shown(wanted), found=shown(self.fields[key]))

    def take_int(self, key: str, *, minimum: int, maximum: int = MAX_NUMBER) -> int:
        """An integer of exact type; raises ``FormatError`` for anything else."""
        return expect_int(self.fields[key], subject=self.named(key), minimum=minimum, maximum=maximum)

    def take_digest(self, key: str) -> Digest:
        """A digest text; raises ``FormatError`` for anything else."""
        return Digest.parse(self.fields[key], subject=self.named(key))

    def take_optional_digest(self, key: str) -> Digest | None:
        """A digest text or ``null``; raises ``FormatError`` for anything else."""
        return None if self.fields[key] is None else self.take_digest(key)

    def take_list(self, key: str, *, maximum: int) -> list[JsonValue]:
        """A list of 1 … ``maximum`` values; raises ``FormatError`` for anything else."""
        return expect_list(self.fields[key], subject=self.named(key), maximum=maximum)

    def take_counts(self, key: str) -> tuple[int, ...]:
        """Positive page counts, one per layer group; raises ``FormatError`` for anything else."""
        return tuple(
            expect_int(value, subject=self.named(key), minimum=1, maximum=MAX_NUMBER)
            for value in self.take_list(key, maximum=MAX_COUNTS)
        )

    def take_identity(self, *, asked: Asked, form: IdentityForm = IdentityForm.CURRENT) -> CacheIdentity:
        """The asked identity if the stored one equals it, or the stored one judged by itself.

        Raises:
            IncompatibleError: the stored identity is not canonically the asked one (store-format §5.4).
            FormatError: none was asked for, and the stored one is no valid identity.
        """
        self.require_key(asked)
        if asked.identity is None:
            return parse_identity(self.fields["identity"], subject=self.named("identity"), form=form)
        self.require_equal("identity", wanted=asked.identity.to_wire())
        return asked.identity

    def require_key(self, asked: Asked) -> None:
        """Who knows only the key of an identity asks for the one with that digest (store-format §5.2, §5.4).

        Raises:
            IncompatibleError: the stored identity, valid or not, has another key.
        """
        if asked.identity is not None or asked.storage_key is None:
            return
        found = sha256(encode_canonical(self.fields["identity"]))
        if found != asked.storage_key:
            subject = f"storage key of {self.named('identity')}"
            raise IncompatibleError(subject, expected=asked.storage_key, found=found)

    def verify_metadata_digest(self) -> Digest:
        """The document's own digest covers everything but itself (store-format §7, common trailer).

        Raises:
            FormatError: it is no digest text.
            IntegrityError: it is the digest of something else.
        """
        stated = self.take_digest("metadata_sha256")
        actual = metadata_digest(self.fields)
        if actual != stated:
            raise IntegrityError(self.named("metadata_sha256"), expected=actual, found=stated)
        return stated


def read_document(raw: bytes, *, subject: str = ROOT_SUBJECT) -> Document:
    """Take the bytes of a document as an object in its canonical spelling (store-format §3).

    Raises:
        FormatError: not JSON, not canonical, over a limit, or not an object.
    """
    fields = expect_object(decode_canonical(raw, subject=subject), subject=subject)
    return Document(fields=fields, sha256=sha256(raw), subject=subject)


def embedded_document(value: JsonValue, *, subject: str) -> Document:
    """Take an object inside a document as a document of its own.

    Raises:
        FormatError: not an object.
    """
    fields = expect_object(value, subject=subject)
    return Document(fields=fields, sha256=sha256(encode_canonical(fields)), subject=subject)


def metadata_digest(fields: JsonObject) -> Digest:
    """The digest over a document without its ``metadata_sha256``."""
    covered: JsonObject = {key: value for key, value in fields.items() if key != "metadata_sha256"}
    return sha256(encode_canonical(covered))


def encode_signed(fields: JsonObject) -> bytes:
    """The document with its metadata digest, in its only spelling."""
    return encode_canonical(fields | {"metadata_sha256": metadata_digest(fields)})
