"""The plan cache: blueprints in files, by graph, passes and target, so that a known graph is not planned
again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import tempfile
from collections.abc import Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from engine.compiler.blueprint import Blueprint, State, draw
from engine.compiler.steps import CondStep, LoopStep
from engine.core.dtype import ALL, DType
from engine.core.node import Node
from engine.core.walk import post_order

LEAST_NODES = 256  # of a graph worth a file: smaller ones are planned in milliseconds
_MAGIC = b"gradmill plan\n"
_PACKAGE = Path(__file__).parents[1]
_PASSES = ("compiler", "emit", "core", "autodiff")  # folders whose code decides what a blueprint is
_BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in ALL}


class PlanCache:
    """Blueprints in ``folder``, which must be private: what is loaded decides what kernels do.

    A file begins with the hash of its content; one that is damaged is made again. Files are written aside and
    renamed, so any number of threads and processes can share the folder.
    """

    def __init__(self, folder: Path, target: str) -> None:
        self.folder = folder
        self.target = target

    def blueprint(
        self, targets: Sequence[Node], states: Sequence[State], remat: int | None = None
    ) -> Blueprint:
        """As ``draw``, from a file where there is one; of equal graphs only the first is planned."""
        roots = [*targets, *[node for pair in states for node in pair]]
        order = post_order(roots)
        if len(order) < LEAST_NODES:
            return draw(targets, states, remat)
        path = self.folder / f"{graph_key(order, roots, len(targets), f'{self.target} {remat}')}.plan"
        found = _loaded(path, order)
        if found is None:
            found = draw(targets, states, remat)
            _store(path, found, order)
        return found


def graph_key(order: Sequence[Node], roots: Sequence[Node], targets: int, target: str) -> str:
    """A hash of the graph's structure, of the code of the passes, and of the machine's instruction set."""
    number = {node: k for k, node in enumerate(order)}
    rows = [
        (node.op, [number[x] for x in node.inputs], node.attrs, node.shape, node.dtype.name) for node in order
    ]
    text = repr((targets, [number[root] for root in roots], rows))
    return hashlib.sha256("\0".join((passes_digest(), target, text)).encode()).hexdigest()


@cache
def passes_digest() -> str:
    """A hash of the source of all passes: the version of what they make."""
    digest = hashlib.sha256()
    for path in chain.from_iterable(sorted((_PACKAGE / folder).glob("*.py")) for folder in _PASSES):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


# ---- files


def _loaded(path: Path, order: Sequence[Node]) -> Blueprint | None:
    """The blueprint in a file, over the nodes in ``order``; None where there is none or it is damaged."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    head, content = raw[: len(_MAGIC) + 32], raw[len(_MAGIC) + 32 :]
    if head != _MAGIC + hashlib.sha256(content).digest():
        return None
    return _Loader(content, order).blueprint()


def _store(path: Path, blueprint: Blueprint, order: Sequence[Node]) -> None:
    """Writes the file; a folder that cannot be written to leaves the cache without it."""
    content = _Dumper(order).dump(blueprint)
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix="build-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(content).digest() + content)
            Path(aside).replace(path)
        except OSError:
            Path(aside).unlink(missing_ok=True)
            raise


def _node(number: int) -> Node:
    """Stands in files for the node of that number; only a loader knows them."""
    raise pickle.UnpicklingError(f"node {number} of no graph")


def _dtype(name: str) -> DType:
    return _BY_NAME[name]


class _Dumper(pickle.Pickler):
    """Nodes of the graph become numbers; nodes that passes have made become rows of their own, before all
    else.
    """

    def __init__(self, order: Sequence[Node]) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, protocol=5)
        self._numbers = {node: k for k, node in enumerate(order)}

    def reducer_override(self, item: Any) -> Any:
        """Dataclasses are made again by their constructors, in half the time of the usual way."""
        if isinstance(item, Node):
            return _node, (self._numbers[item],)
        if type(item) is DType:
            return _dtype, (item.name,)
        fields = getattr(type(item), "__dataclass_fields__", None)
        return (
            NotImplemented if fields is None else (type(item), tuple([getattr(item, own) for own in fields]))
        )

    def dump(self, item: Any) -> bytes:  # type: ignore[override]
        blueprint: Blueprint = item
        made = [node for node in post_order(_nodes_of(blueprint)) if node not in self._numbers]
        self._numbers |= {node: k for k, node in enumerate(made, len(self._numbers))}
        rows = [
            ([self._numbers[x] for x in node.inputs], node.op, node.attrs, node.shape, node.dtype)
            for node in made
        ]
        super().dump(rows)
        super().dump(blueprint)
        return self._file.getvalue()


class _Loader(pickle.Unpickler):
    """The inverse; only classes of this package are made."""

    def __init__(self, content: bytes, order: Sequence[Node]) -> None:
        super().__init__(io.BytesIO(content))
        self._nodes = list(order)

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name == _node.__name__:
            return self._nodes.__getitem__
        if not module.startswith("engine."):
            raise pickle.UnpicklingError(f"a plan holds a {module}.{name}")
        return super().find_class(module, name)

    def blueprint(self) -> Blueprint:
        for inputs, op, attrs, shape, dtype in self.load():
            operands = tuple([self._nodes[k] for k in inputs])
            self._nodes.append(Node(op, operands, attrs, shape, dtype))
        found: Blueprint = self.load()
        return found


def _nodes_of(blueprint: Blueprint) -> list[Node]:
    """Every node that a blueprint mentions."""
    found: dict[Node, None] = {}
    for step in blueprint.steps:
        found |= dict.fromkeys((*step.nodes, *step.reads, *step.writes))
        if isinstance(step, LoopStep | CondStep):
            for body in step.bodies:
                found |= dict.fromkeys((*body.inputs, *_nodes_of(body.blueprint)))
        if isinstance(step, LoopStep):
            found |= dict.fromkeys(carry.param for carry in step.carries)
    for access in (*blueprint.results, *blueprint.states):
        found[access.source] = None
    for refusal in blueprint.refusals:
        found |= {refusal.producer: None, refusal.consumer: None}
    for node, operands in blueprint.operands.items():
        found |= dict.fromkeys((node, *operands))
    return list(found)
