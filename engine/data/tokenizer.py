"""Characters as tokens."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any


class CharTokenizer:
    """One token a character; ids follow the order of ``characters``, which must not repeat."""

    def __init__(self, characters: str) -> None:
        self.characters = characters
        self._ids = {character: i for i, character in enumerate(characters)}
        if len(self._ids) != len(characters):
            raise ValueError("characters repeats a character; every token needs one of its own")
        if not characters:
            raise ValueError("characters is empty; a tokenizer needs at least one")

    @classmethod
    def from_text(cls, text: str) -> CharTokenizer:
        """The tokenizer of the distinct characters of ``text``, sorted by code point."""
        if not text:
            raise ValueError("the text is empty; a tokenizer needs at least one character")
        return cls("".join(sorted(set(text))))

    @property
    def vocab_size(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> array[int]:
        """The ids of ``text`` as 32-bit integers. Raises ValueError for a character that has none."""
        try:
            return array("i", map(self._ids.__getitem__, text))
        except KeyError as error:
            unknown = error.args[0]
            raise ValueError(
                f"character {unknown!r} at offset {text.index(unknown)} is not among the "
                f"{self.vocab_size} characters that the model was trained on"
            ) from None

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ``ids``. Raises IndexError for an id outside the vocabulary."""
        return "".join(self._character(i) for i in ids)

    def _character(self, i: int) -> str:
        if not 0 <= i < len(self.characters):
            raise IndexError(f"token id {i} is outside the vocabulary of {self.vocab_size}")
        return self.characters[i]

    def describe(self) -> dict[str, Any]:
        """The mapping that ``read_tokenizer`` turns back into this tokenizer."""
        return {"kind": "char", "characters": self.characters}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CharTokenizer) and other.characters == self.characters

    def __hash__(self) -> int:
        return hash(self.characters)


def read_tokenizer(description: dict[str, Any]) -> CharTokenizer:
    """The tokenizer that ``describe()`` wrote. Raises ValueError for another kind or a malformed mapping."""
    characters = description.get("characters")
    if description.get("kind") != "char" or not isinstance(characters, str):
        raise ValueError('a tokenizer is {"kind": "char", "characters": "…"}')
    return CharTokenizer(characters)
