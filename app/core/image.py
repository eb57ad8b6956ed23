"""An image's three digests as three types: none of them can stand for another.

`ConfigId` is the SHA-256 of the image's configuration (what `docker inspect` calls Id, and what a running
container names), `ManifestDigest` that of one platform's OCI image manifest, `IndexDigest` that of a
multi-platform index (OCI image specification 1.1, "Image Manifest" and "Image Index").
"""

from dataclasses import dataclass

from app.core.digest import Digest
from app.core.errors import FormatError


class ConfigId(Digest):
    """SHA-256 of the image configuration."""

    __slots__ = ()


class ManifestDigest(Digest):
    """SHA-256 of one platform's image manifest."""

    __slots__ = ()


class IndexDigest(Digest):
    """SHA-256 of a multi-platform image index."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDigests:
    """What is known of an image's three digests; at least one.

    Raises:
        FormatError: none is known, or two of them are the same value.
    """

    config_id: ConfigId | None = None
    manifest_digest: ManifestDigest | None = None
    index_digest: IndexDigest | None = None

    def __post_init__(self) -> None:
        known = self.known()
        if not known:
            raise FormatError(
                "image",
                expected="config_id, manifest_digest or index_digest",
                found="none of them",
            )
        if len(set(known.values())) < len(known):
            raise FormatError(
                "image",
                expected="three different digests: configuration, manifest and index are different documents",
                found="the same value in " + " and ".join(known),
            )

    def known(self) -> dict[str, str]:
        """The digests that are known, by name."""
        pairs = {
            "config_id": self.config_id,
            "manifest_digest": self.manifest_digest,
            "index_digest": self.index_digest,
        }
        return {name: str(value) for name, value in pairs.items() if value is not None}
