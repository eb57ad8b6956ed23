"""Root documents, judged as their readers will judge them, then published last (store-format §12.4)."""

from app.core.store.identity import CacheIdentity
from app.core.store.layout import DocumentName
from app.core.store.manifest import RootDocument, parse_manifest
from app.core.store.writer.publication import Publication


def store_root(
    publication: Publication, *, identity: CacheIdentity, name: DocumentName, document: bytes
) -> RootDocument:
    """Publish a root document; from here on the entry is visible.

    Returns:
        The document as its readers take it.

    Raises:
        FormatError, IncompatibleError: a reader would refuse it, so it was not published.
        IntegrityError: another document stands there; it was left alone.
    """
    judged = parse_manifest(document, identity=identity, context_digest=name.context_digest)
    publication.store_document(name.path, document=document)
    return judged
