"""Recorded graphs: inputs and parameters by name, symbolic sizes, gradients as part of the graph, plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from engine.autodiff.differentiate import differentiate
from engine.compiler.interpret import interpret
from engine.compiler.plan import Plan
from engine.compiler.profile import Profile, Verdict
from engine.compiler.sized import Sizes
from engine.core.dim import Dim, Poly, evaluate, symbol
from engine.core.dim import Shape as SymbolicShape
from engine.core.dtype import DType, float32, uint32
from engine.core.node import Node
from engine.core.opdef import OPS
from engine.core.region import Region
from engine.core.walk import post_order
from engine.devices.array import Array
from engine.devices.cpu.device import CpuDevice
from engine.devices.device import Device, Numerics, check_numerics, current_device, use_device
from engine.devices.evaluate import evaluate as evaluate_nodes
from engine.errors import DeviceError, ShapeError, TracingError
from engine.parameters import Parameters
from engine.random import Generator, GeneratorState, RecordedGenerator, state_tensor
from engine.tensor import Tensor
from engine.tensor.cell import Cell, Host, current_trace, record_all, wrap
from engine.tensor.promotion import as_tensor, cast
from engine.tracing.pytree import Structure, flatten, unflatten
from engine.tracing.symbols import Symbol, SymbolDevice, refuse, sizes_in_doubt, user_line

Feeds = Mapping[str, Any]
"""A Tensor, or what one can be made of, for each input and parameter by its name."""


class Graph:
    """A computation that is written once and then run as often as one likes, at any sizes.

    Inside ``with graph:`` operations on its Tensors are recorded instead of computed. Tensors from outside
    become constants. Its Tensors have no values; those of another graph are refused. State lives outside, in
    feeds and results, so many threads may run what one has recorded.
    """

    def __init__(self) -> None:
        self._symbols = SymbolDevice()
        self._leaves: dict[str, Node] = {}
        self._generators: dict[str, RecordedGenerator] = {}
        self._outside: Device | None = None
        self._blocks: list[Any] = []

    # ---- recording

    def __enter__(self) -> Self:
        block = self._recording()
        block.__enter__()
        self._blocks.append(block)
        return self

    def __exit__(self, *error: object) -> None:
        self._blocks.pop().__exit__(*error)

    @contextmanager
    def _recording(self) -> Iterator[None]:
        token = current_trace.set(_Recording(current_device()))
        try:
            with use_device(self._symbols), record_all(), sizes_in_doubt(refuse):
                yield
        finally:
            current_trace.reset(token)

    def symbol(self, name: str) -> Dim:
        """A size that is known when the graph is run. It never means 1 in a broadcast."""
        return symbol(name)

    def input(self, name: str, shape: Sequence[Dim | str] = (), dtype: DType = float32) -> Tensor:
        """A value that each run is given; sizes in ``shape`` may be names of symbols."""
        return self._leaf(name, Node("input", (), (), _shape_of(shape), dtype))

    def parameter(self, name: str, shape: Sequence[Dim | str] = (), dtype: DType = float32) -> Tensor:
        """As ``input``, for what is learned: gradients may be asked for with ``backward`` too."""
        leaf = self._leaf(name, Node("parameter", (), (name,), _shape_of(shape), dtype))
        leaf._requires_grad = dtype.is_float
        return leaf

    def generator(self, name: str) -> RecordedGenerator:
        """Random numbers from a generator that each run is given: a Generator, which then has as many calls
        behind it as the graph holds, or a GeneratorState.
        """
        leaf = self._leaf(name, Node("input", (), (), (3,), uint32))
        self._generators[name] = generator = RecordedGenerator(leaf)
        return generator

    def _leaf(self, name: str, node: Node) -> Tensor:
        if name in self._leaves:
            raise ValueError(f"the graph has an input {name!r} already; names are given once")
        self._leaves[name] = node
        return wrap(Symbol(node, self._symbols))  # type: ignore[arg-type]

    def differentiate(self, outputs: Any, wrt: Any, seeds: Any = None) -> Any:
        """The gradients of Σ seed · output, seeds of ones by default, for a tree of Tensors, in such a tree.

        They are Tensors of the graph, so they can be differentiated again.
        """
        structure, cells = flatten(wrt)
        with self._recording():
            nodes = differentiate(
                [self._own(x).node for x in flatten(outputs)[1]],
                [self._own(x).node for x in cells],
                None if seeds is None else [self._own(x).node for x in flatten(seeds)[1]],
            )
            values = evaluate_nodes(nodes, self._symbols)
            return unflatten(
                structure, [wrap(value, node, True) for value, node in zip(values, nodes, strict=True)]
            )

    def _own(self, x: Tensor) -> Tensor:
        self._symbols.node(x._value)
        return x

    # ---- running

    def compile(
        self,
        targets: Any,
        *,
        remat: int | None = None,
        device: CpuDevice | None = None,
        threads: int | None = None,
        numerics: Numerics = "any",
    ) -> RecordedPlan:
        """The plan of a tree of Tensors; it serves every size of the symbols.

        With ``remat`` values are computed again, with the same bits, until no more than so many bytes of them
        are kept at once (0: as few as possible). ``threads`` sets those of the process. Raises DeviceError
        without a C compiler, and for a device that is not exact where ``numerics`` is "exact".
        """
        own = device or (current_device() if threads is None else CpuDevice(threads))
        check_numerics(numerics, own)
        if not isinstance(own, CpuDevice):
            raise DeviceError(f"plans are compiled for the cpu device, not for {own.name}; use interpret()")
        structure, nodes, leaves = self._targets(targets)
        plan = Plan(list(leaves.values()), nodes, own, names=leaves, remat=remat)
        return RecordedPlan(plan, structure, leaves, self._generators)

    def interpret(self, targets: Any, feeds: Feeds) -> Any:
        """The values of a tree of Tensors, one node a kernel: what every plan must equal bit for bit."""
        structure, nodes, leaves = self._targets(targets)
        fed = _fed(leaves, feeds)
        values = {node: fed[name]._value for name, node in leaves.items()}
        results = interpret(nodes, values, current_device(), _sizes(leaves, fed))
        _advance(self._generators, feeds)
        return unflatten(structure, [wrap(value) for value in results])

    def _targets(self, targets: Any) -> tuple[Structure, list[Node], dict[str, Node]]:
        structure, tensors = flatten(targets)
        nodes = [self._symbols.node(x._value) for x in tensors]
        reached = set(post_order(nodes))
        return structure, nodes, {name: node for name, node in self._leaves.items() if node in reached}

    def names(self, targets: Any) -> tuple[str, ...]:
        """The inputs that a tree of Tensors reads."""
        return tuple(self._targets(targets)[2])

    def text(self, targets: Any) -> str:
        """The nodes of a tree of Tensors, one a line, each after its operands."""
        _, nodes, leaves = self._targets(targets)
        return describe_nodes(nodes, leaves)


class RecordedPlan:
    """A plan whose inputs have names and whose results come as the tree that was asked for."""

    def __init__(
        self,
        plan: Plan,
        structure: Structure,
        leaves: Mapping[str, Node],
        generators: Mapping[str, RecordedGenerator],
    ) -> None:
        self.plan = plan
        self._structure = structure
        self._leaves = leaves
        self._generators = dict(generators)

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs that the targets read."""
        return tuple(self._leaves)

    def run(self, feeds: Feeds) -> Any:
        """The results for these feeds. Any number of threads may run it at once.

        A Generator that is fed has the graph's calls behind it afterwards. Raises KeyError for a missing or
        unknown name, ShapeError and DTypeError for values that do not fit, BoundsError for an index out of
        range.
        """
        results = self.plan.run(self._arrays(feeds))
        _advance(self._generators, feeds)
        return unflatten(self._structure, [wrap(value) for value in results])

    def _arrays(self, feeds: Feeds) -> dict[Node | str, Array]:
        return {self._leaves[name]: x._value for name, x in _fed(self._leaves, feeds).items()}

    def describe(self, sizes: Sizes | None = None) -> str:
        """Each step of the plan, what was not fused and why, and the memory it takes."""
        return self.plan.describe(sizes)

    def source(self) -> str:
        """The C of all kernels."""
        return self.plan.source()

    def profile(self, feeds: Feeds) -> Profile:
        """The measured time of each step beside its bound."""
        return self.plan.profile(self._arrays(feeds))

    def verify(self, feeds: Feeds) -> Verdict:
        """Whether the results have the bits of one node a kernel."""
        return self.plan.verify(self._arrays(feeds))

    def trace_events(self, feeds: Feeds) -> str:
        """One run as Chrome trace events (JSON)."""
        return self.plan.trace_events(self._arrays(feeds))

    def _repr_html_(self) -> str:
        return self.plan._repr_html_()

    def _repr_svg_(self) -> str | None:
        return self.plan._repr_svg_()


def _fed(leaves: Mapping[str, Node], feeds: Feeds) -> dict[str, Tensor]:
    unknown, missing = sorted(feeds.keys() - leaves.keys()), sorted(leaves.keys() - feeds.keys())
    if missing:
        raise KeyError(f"feeds lack {', '.join(missing)}; give {', '.join(leaves)}")
    if unknown:
        raise KeyError(f"{', '.join(unknown)}: nothing reads such inputs; give {', '.join(leaves)}")
    return {name: _fitting(feeds[name], leaves[name].dtype) for name in leaves}


def _advance(generators: Mapping[str, RecordedGenerator], feeds: Feeds) -> None:
    """The calls of a graph are behind the generators that it was given."""
    for name, recorded in generators.items():
        given = feeds.get(name)
        if isinstance(given, Generator):
            given.state = GeneratorState(given.state.seed, given.state.ordinal + recorded.calls)


def _fitting(value: Any, dtype: DType) -> Tensor:
    """Tensors as they are; generators as their states; numbers and lists in the dtype that is wanted."""
    if isinstance(value, Generator | GeneratorState):
        return state_tensor(value if isinstance(value, GeneratorState) else value.state)
    return value if isinstance(value, Tensor) else cast(as_tensor(value), dtype)


def _sizes(leaves: Mapping[str, Node], fed: Mapping[str, Tensor]) -> dict[str, int]:
    """The size of each symbol. Raises ShapeError for values that do not fit each other."""
    sizes: dict[str, int] = {}
    for name, node in leaves.items():
        if len(node.shape) != len(fed[name].shape):
            raise ShapeError(f"{name} has shape {fed[name].shape}; it must have {len(node.shape)} axes")
        for dim, size in zip(node.shape, fed[name].shape, strict=True):
            if isinstance(dim, Poly) and dim == symbol(str(dim)):
                sizes.setdefault(str(dim), size)
    for name, node in leaves.items():
        wanted = tuple([evaluate(dim, sizes) for dim in node.shape])
        if wanted != fed[name].shape:
            raise ShapeError(
                f"{name} has shape {fed[name].shape}; with {sizes or 'its sizes'} it must be {wanted}"
            )
    return sizes


def _shape_of(shape: Sequence[Dim | str]) -> SymbolicShape:
    return tuple([symbol(size) if isinstance(size, str) else size for size in shape])


def describe_nodes(nodes: Sequence[Node], leaves: Mapping[str, Node] | None = None) -> str:
    """The graph of ``nodes`` in words: ``v3 = add(v1, v2) float32[n, 4]``; regions below what has them."""
    return "\n".join(_lines(nodes, post_order(nodes), leaves or {}))


def _lines(nodes: Sequence[Node], order: Sequence[Node], leaves: Mapping[str, Node]) -> list[str]:
    names = {node: name for name, node in leaves.items()}
    lines = []
    for node in order:
        own = names.setdefault(node, f"v{len(names)}")
        shape = ", ".join(map(str, node.shape))
        attrs = ", ".join(_attr_text(node, attr) for attr in node.attrs if not isinstance(attr, Region))
        operands = ", ".join(names[x] for x in node.inputs)
        inside = "; ".join(part for part in (operands, attrs) if part)
        lines.append(f"{own} = {node.op}({inside}) {node.dtype}[{shape}]")
        for name, attr in zip(OPS[node.op].attrs, node.attrs, strict=False):
            if isinstance(attr, Region):
                params = attr.named_params()
                lines.append(f"    {name}({', '.join(params)})")
                lines += [f"        {line}" for line in _lines(attr.outs, attr.nodes, params)]
    return [*lines, f"targets {', '.join(names[node] for node in nodes)}"]


def _attr_text(node: Node, attr: Any) -> str:
    if node.op == "constant":
        return str(node.dtype.decode(attr))
    return str(attr)


class _Recording:
    """What operations are told while a graph is recorded."""

    turns: tuple[Tensor, ...] = ()

    def __init__(self, device: Device) -> None:
        self._device = device

    def meet(self, cells: Sequence[Cell]) -> None: ...

    def meet_grad(self, cell: Cell, written: bool) -> None: ...

    def depend_on(self, read: Callable[[], Any]) -> None: ...

    def from_host(self, host: Host) -> list[Tensor]:
        raise TracingError(
            f"{user_line()}: generators and optimisers compute on the host before each step, which graphs "
            "have no place for; use graph.generator(name), give numbers as inputs, or use engine.compile"
        )

    @contextmanager
    def suspended(self) -> Iterator[None]:
        token = current_trace.set(None)
        try:
            with use_device(self._device):
                yield
        finally:
            current_trace.reset(token)


__all__ = ["Feeds", "Graph", "Parameters", "RecordedPlan", "describe_nodes"]
