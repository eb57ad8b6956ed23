"""What every extractor gets: the document, its schema's entry, the annotations that may make a sentence
count.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from app.core.canonical_json import ExactValue
from app.core.qualify.document import Document
from app.core.qualify.facts import Meaning
from app.core.qualify.pointer import matches
from app.core.qualify.reading import Place
from app.core.qualify.schema_table import Phrase, SchemaEntry, Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One document under extraction."""

    document: Document
    entry: SchemaEntry
    phrases: tuple[Phrase, ...] = ()

    @property
    def spec(self) -> Spec:
        """The pointers of the schema."""
        return self.entry.spec

    @property
    def top(self) -> Place:
        """The whole document."""
        return Place(document=self.document.value)

    def annotated(self, pointer: str, value: ExactValue, *meanings: Meaning) -> Phrase | None:
        """The annotation, of one of the meanings, that covers the sentence at the pointer."""
        if not isinstance(value, str):
            return None
        for phrase in self.phrases:
            if phrase.meaning in meanings and phrase.fits(value) and self._covers(phrase, pointer):
                return phrase
        return None

    def every_annotated(self) -> Iterator[tuple[Phrase, str, str]]:
        """Each annotation that fits, with the pointer and the sentence it fits."""
        for phrase in self.phrases:
            for pointer, value in matches(self.document.value, phrase.pattern):
                if isinstance(value, str) and phrase.fits(value):
                    yield phrase, pointer, value

    def _covers(self, phrase: Phrase, pointer: str) -> bool:
        return any(at == pointer for at, _ in matches(self.document.value, phrase.pattern))
