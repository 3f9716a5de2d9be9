"""Kinds of job: one file a kind, one row here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from service.specs import compile, price, sample, train
from service.specs.base import (
    Catalogue,
    ModelFacts,
    Prepared,
    Strict,
    TextFacts,
    sorted_alphabet,
    text_facts,
)


@dataclass(frozen=True)
class Kind:
    """A kind of job: the form of its spec, what makes a read spec ready to be queued, and an example."""

    spec: type[Strict]
    prepare: Callable[[Any, Catalogue], Awaitable[Prepared]]
    example: Mapping[str, Any]


KINDS: dict[str, Kind] = {
    "train": Kind(train.Train, train.prepare, train.EXAMPLE),
    "sample": Kind(sample.Sample, sample.prepare, sample.EXAMPLE),
    "price": Kind(price.Price, price.prepare, price.EXAMPLE),
    "compile": Kind(compile.Compile, compile.prepare, compile.EXAMPLE),
}

__all__ = [
    "KINDS",
    "Catalogue",
    "Kind",
    "ModelFacts",
    "Prepared",
    "Strict",
    "TextFacts",
    "sorted_alphabet",
    "text_facts",
]
