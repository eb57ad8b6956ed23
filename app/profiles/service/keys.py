"""The words under which profile documents find each other: ``role:value``.

who says it                  whom it concerns
release selection  pins      every document it names by digest
template set       template  what contracts call templates
deployment         deploys   the profile it states status and recommendation of
contract           lock      contracts of the same image: they pin the same artifact lock
overlay check      contract  the contract whose overlay was checked
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from app.core.canonical_json import ExactValue
from app.core.profiles.documents import DocumentKind
from app.core.profiles.kinds import AnyDocument
from app.core.qualify.keys import word

PINS: Final = "pins"
TEMPLATE: Final = "template"
DEPLOYS: Final = "deploys"
LOCK: Final = "lock"
CONTRACT: Final = "contract"
# Of one document so many words are kept; more of them nobody has, and rows stay small.
MOST_KEYS: Final = 2000


def document_keys(document: AnyDocument) -> list[str]:
    """The words of a document that was read in full."""
    says = _SAYS.get(document.kind)
    value = document.value
    if says is None or not isinstance(value, dict):
        return []
    return sorted(set(says(value)))[:MOST_KEYS]


def _pins(value: Mapping[str, ExactValue]) -> Iterator[str]:
    inputs = value.get("inputs")
    for one in inputs if isinstance(inputs, list) else []:
        digest = one.get("sha256") if isinstance(one, dict) else None
        if isinstance(digest, str):
            yield word(PINS, digest)


def _templates(value: Mapping[str, ExactValue]) -> Iterator[str]:
    templates = value.get("templates")
    if isinstance(templates, dict):
        yield from (word(TEMPLATE, name) for name in templates)


def _deploys(value: Mapping[str, ExactValue]) -> Iterator[str]:
    configuration = value.get("configuration")
    key = configuration.get("key") if isinstance(configuration, dict) else None
    if isinstance(key, str):
        yield word(DEPLOYS, key)


def _lock(value: Mapping[str, ExactValue]) -> Iterator[str]:
    image = value.get("image")
    digest = image.get("artifact_lock_sha256") if isinstance(image, dict) else None
    if isinstance(digest, str):
        yield word(LOCK, digest)


def _contract(value: Mapping[str, ExactValue]) -> Iterator[str]:
    digest = value.get("contract_sha256")
    if isinstance(digest, str):
        yield word(CONTRACT, digest)


_SAYS: Final[Mapping[DocumentKind, Callable[[Mapping[str, ExactValue]], Iterator[str]]]] = {
    DocumentKind.RELEASE_SELECTION: _pins,
    DocumentKind.TEMPLATE_SET: _templates,
    DocumentKind.DEPLOYMENT: _deploys,
    DocumentKind.CONTRACT: _lock,
    DocumentKind.OVERLAY_CHECK: _contract,
}
