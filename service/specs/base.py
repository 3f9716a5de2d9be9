"""What every spec shares: strict reading, and what checking one against the catalogue gives."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """No unknown fields, no guessing of types, no NaN, no infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


@dataclass(frozen=True)
class TextFacts:
    """A text as a model will see it: the blob that holds it, its length and its different characters."""

    blob: str
    characters: int
    alphabet: str

    @property
    def vocabulary(self) -> int:
        """How many different characters there are."""
        return len(self.alphabet)


def sorted_alphabet(characters: Iterable[str]) -> str:
    """Each character once, by code point."""
    return "".join(sorted(set(characters)))


def text_facts(text: str) -> TextFacts:
    """The facts of a text at hand. It is read with ``\\n`` line ends and without a byte order mark."""
    read = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return TextFacts(hashlib.sha256(text.encode()).hexdigest(), len(read), sorted_alphabet(read))


@dataclass(frozen=True)
class ModelFacts:
    """Where a model's weights are, how large it is and which characters it knows, where that is known."""

    id: str
    weights: str
    parameters: int
    alphabet: str | None = None


class Catalogue(Protocol):
    """What specs may refer to. Each method returns None where nothing of that name is there."""

    async def file(self, file_id: str) -> TextFacts | None:
        """An uploaded text."""

    async def model(self, name: str) -> ModelFacts | None:
        """A model by its id, its alias, ``job`` or ``job@step``."""


@dataclass(frozen=True)
class Prepared:
    """A spec ready to be queued.

    ``spec`` is what the worker reads, ``estimate`` what it will cost, ``blobs`` what must be stored first.
    """

    spec: Mapping[str, Any]
    estimate: Mapping[str, int | float]
    lane: str
    blobs: Mapping[str, bytes] = field(default_factory=dict)
