"""Trees of Tensors: taken apart into their leaves and a structure, and put together again."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeAlias

from engine.tensor import Tensor
from engine.tensor.promotion import as_tensor

Structure: TypeAlias = Hashable
"""What a tree is without its Tensors; equal structures take the same leaves."""


class _Leaf:
    def __repr__(self) -> str:
        return "Tensor"


_LEAF = _Leaf()


@dataclass(frozen=True, slots=True)
class _Branch:
    kind: Any
    names: tuple[Hashable, ...]
    children: tuple[Structure, ...]


class _Object:
    """A value that is none of ours: equal by value where it can be hashed, else by identity."""

    __slots__ = ("_key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        try:
            hash(value)
            self._key: Hashable = (type(value), value)
        except TypeError:
            self._key = id(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Object) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def flatten(tree: Any, numbers: bool = False) -> tuple[Structure, list[Tensor]]:
    """The structure and the leaves of lists, tuples, mappings and dataclasses that hold Tensors.

    Modules, optimisers and whatever else are part of the structure; with ``numbers``, numbers become Tensors.
    """
    leaves: list[Tensor] = []
    return _flatten(tree, leaves, numbers), leaves


def _flatten(tree: Any, leaves: list[Tensor], numbers: bool) -> Structure:
    if isinstance(tree, Tensor) or (numbers and isinstance(tree, bool | int | float)):
        leaves.append(as_tensor(tree))
        return _LEAF
    kind = type(tree)
    if kind in (list, tuple):
        return _Branch(kind, (), tuple([_flatten(item, leaves, numbers) for item in tree]))
    if isinstance(tree, Mapping):
        return _Branch(kind, tuple(tree), tuple([_flatten(item, leaves, numbers) for item in tree.values()]))
    if is_dataclass(kind):
        names = tuple([field.name for field in fields(kind) if field.init])
        return _Branch(kind, names, tuple([_flatten(getattr(tree, name), leaves, numbers) for name in names]))
    return _Object(tree)


def names(structure: Structure, name: str) -> list[str]:
    """What to call each leaf of a tree called ``name``: ``carries['x'][0]``."""
    if structure is _LEAF:
        return [name]
    if not isinstance(structure, _Branch):
        return []
    parts = structure.names or range(len(structure.children))
    inside = [f"{name}.{part}" if is_dataclass(structure.kind) else f"{name}[{part!r}]" for part in parts]
    return [leaf for child, own in zip(structure.children, inside, strict=True) for leaf in names(child, own)]


def unflatten(structure: Structure, leaves: Sequence[Tensor]) -> Any:
    """The tree of ``structure`` with ``leaves``."""
    return _unflatten(structure, iter(leaves))


def _unflatten(structure: Structure, leaves: Iterator[Tensor]) -> Any:
    if structure is _LEAF:
        return next(leaves)
    if isinstance(structure, _Object):
        return structure.value
    assert isinstance(structure, _Branch)
    children = [_unflatten(child, leaves) for child in structure.children]
    if structure.kind in (list, tuple):
        return structure.kind(children)
    named: dict[Any, Any] = dict(zip(structure.names, children, strict=True))
    return structure.kind(named) if issubclass(structure.kind, Mapping) else structure.kind(**named)
