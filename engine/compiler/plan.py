"""Plans: a graph turned into few kernels, bound to sizes when they are known, and run by one call."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from engine.compiler.binding import Binding
from engine.compiler.blueprint import State
from engine.compiler.describe import describe, shown_targets
from engine.compiler.plan_cache import PlanCache
from engine.compiler.profile import Profile, Verdict, example_values, profile, verify
from engine.compiler.render import html, svg
from engine.compiler.report import Names
from engine.compiler.session import Feeds as Feeds
from engine.compiler.session import Session
from engine.compiler.sized import Sizes
from engine.core.dim import Dim, Poly, evaluate
from engine.core.node import Node
from engine.devices.array import Array
from engine.devices.cpu.device import CpuDevice
from engine.errors import DTypeError, ShapeError

MOST_BINDINGS = 512  # sizes that a plan stays bound to; the first ones go first


class Plan:
    """``targets`` as a function of ``inputs``, in few kernels with the bits of one node a kernel.

    A plan serves every size of its symbols and may be run from any number of threads. ``states`` pairs inputs
    with the nodes that replace them after each run: ``session`` keeps them between runs. ``names`` are
    further names of inputs, beside those of parameters. ``remat`` is how many bytes of intermediate values to
    aim for at once, by computing some again (0: as few as possible; None: nothing is computed again to save
    memory). Raises ValueError where the new value of a state has another shape or dtype.
    """

    def __init__(
        self,
        inputs: Sequence[Node],
        targets: Sequence[Node],
        device: CpuDevice,
        *,
        states: Sequence[State] = (),
        names: Mapping[str, Node] | None = None,
        remat: int | None = None,
    ) -> None:
        self.inputs = tuple(inputs)
        self.targets = tuple(targets)
        self.states = tuple(states)
        self.device = device
        self._check_states()
        plans = PlanCache(device.native.kernels.folder / "plans", device.toolchain.target)
        self.blueprint = plans.blueprint(self.targets, self.states, remat)
        self._numbers: dict[Node | str, int] = {node: k for k, node in enumerate(self.inputs)}
        for k, node in enumerate(self.inputs):
            if node.op == "parameter":
                self._numbers.setdefault(node.attrs[0], k)
        for name, node in (names or {}).items():
            self._numbers[name] = self._numbers[node]
        self.symbols = sorted({name for node in self.inputs for dim in node.shape for name in _symbols(dim)})
        self._solving = [self._equation(name) for name in self.symbols]
        self._bindings: dict[tuple[int, ...], Binding] = {}
        self._latest: Binding | None = None
        self._lock = threading.Lock()

    def source(self) -> str:
        """The C of all kernels: one translation unit, and one for each body of a loop or condition."""
        return "\n".join(self.blueprint.texts())

    def bind(self, sizes: Sizes) -> Binding:
        """What belongs to these sizes of the symbols, made when they are first asked for."""
        missing = [name for name in self.symbols if name not in sizes]
        if missing:
            raise KeyError(
                f"sizes lack {', '.join(missing)}; this plan has the symbols {', '.join(self.symbols)}"
            )
        return self._bound(tuple([sizes[name] for name in self.symbols]))

    def _bound(self, key: tuple[int, ...]) -> Binding:
        found = self._bindings.get(key)
        if found is None:
            sizes = dict(zip(self.symbols, key, strict=True))
            with self._lock:
                found = self._bindings.get(key)
                if found is None:
                    found = Binding(self.blueprint, self.inputs, self.device, sizes)
                    if len(self._bindings) >= MOST_BINDINGS:
                        del self._bindings[next(iter(self._bindings))]
                    self._bindings[key] = found
        return found

    def run(self, feeds: Feeds) -> list[Array]:
        """The targets, then the new values of the states, for one array an input.

        Raises KeyError for a missing or unknown input, ShapeError, DTypeError, and BoundsError for a checked
        index out of range.
        """
        latest = self._latest
        if latest is not None:
            matching = latest.matching(feeds, self._numbers)
            if matching is not None:
                return latest.run(matching)
        arrays = self.arrays(feeds)
        self._latest = latest = self.binding(arrays)
        return latest.run(arrays)

    def session(self, values: Feeds) -> Session:
        """Runs in which the states, which begin with ``values``, go on from each run to the next."""
        return Session(self, values)

    # ---- looking at it

    def describe(self, sizes: Sizes | None = None) -> str:
        """Each step: what it computes from what, bytes and operations, where results lie; and refused
        fusions.
        """
        binding = self.bind(sizes or {})
        names = self.node_names()
        return describe(binding, names, shown_targets(binding, names))

    def profile(self, feeds: Feeds | None = None, sizes: Sizes | None = None, repeats: int = 5) -> Profile:
        """The measured time of each step beside its bound; without feeds, on values made up for ``sizes``."""
        arrays, binding = self._example(feeds, sizes)
        return profile(self, binding, arrays, self.node_names(), repeats)

    def verify(self, feeds: Feeds | None = None, sizes: Sizes | None = None) -> Verdict:
        """Whether the results have the bits of one node a kernel."""
        arrays, binding = self._example(feeds, sizes)
        return verify(self, binding, arrays)

    def trace_events(self, feeds: Feeds | None = None, sizes: Sizes | None = None) -> str:
        """One run as Chrome trace events (JSON)."""
        return self.profile(feeds, sizes).trace_events()

    def _repr_html_(self) -> str:
        binding = self._some_binding()
        return f"<pre>{self!r}</pre>" if binding is None else html(binding, self.node_names())

    def _repr_svg_(self) -> str | None:
        binding = self._some_binding()
        return None if binding is None else svg(binding, self.node_names())

    def __repr__(self) -> str:
        symbols = f" over {', '.join(self.symbols)}" if self.symbols else ""
        steps = len(self.blueprint.steps)
        return f"<Plan{symbols}: {len(self.inputs)} inputs, {len(self.targets)} targets, {steps} steps>"

    def _some_binding(self) -> Binding | None:
        """The binding to show: the latest one, or the only one there can be."""
        if not self.symbols:
            return self.bind({})
        return next(reversed(self._bindings.values()), None)

    def node_names(self) -> Names:
        labels = [self._given_name(k) or f"input {k}" for k in range(len(self.inputs))]
        return Names(self.inputs, labels, self.blueprint.steps)

    def _example(self, feeds: Feeds | None, sizes: Sizes | None) -> tuple[list[Array], Binding]:
        if feeds is not None:
            arrays = self.arrays(feeds)
            return arrays, self.binding(arrays)
        binding = self.bind(sizes or {})
        return example_values(self.inputs, binding.input_shapes), binding

    # ---- feeds

    def number(self, key: Node | str) -> int:
        """The position of an input. Raises KeyError."""
        try:
            return self._numbers[key]
        except KeyError:
            known = ", ".join(str(name) for name in self._numbers if isinstance(name, str))
            raise KeyError(f"the plan has no input {key!r}; named ones: {known or 'none'}") from None

    def arrays(self, feeds: Feeds) -> list[Array]:
        """One contiguous array for each input."""
        found: list[Array | None] = [None] * len(self.inputs)
        for key, x in feeds.items():
            number = self.number(key)
            found[number] = self.fitting(number, x)
        arrays = [x for x in found if x is not None]
        if len(arrays) != len(found) or len(feeds) != len(found):
            self._complain(feeds)
        return arrays

    def _complain(self, feeds: Feeds) -> None:
        given = {self.number(key) for key in feeds}
        missing = [self.label(k) for k in range(len(self.inputs)) if k not in given]
        if missing:
            raise KeyError(f"feeds lack {', '.join(missing)}")
        raise KeyError("an input is fed twice, by its node and by its name")

    def label(self, number: int) -> str:
        """What messages call an input."""
        return self._given_name(number) or f"input {number} {self.inputs[number]}"

    def _given_name(self, number: int) -> str | None:
        return next(
            (name for name, k in self._numbers.items() if k == number and isinstance(name, str)), None
        )

    def fitting(self, number: int, x: Array) -> Array:
        """``x`` laid out row by row. Raises ShapeError or DTypeError where it is not what the input is."""
        node = self.inputs[number]
        if x.dtype is not node.dtype:
            raise DTypeError(f"{self.label(number)} takes {node.dtype}, got {x.dtype}")
        if len(x.shape) != len(node.shape):
            raise ShapeError(f"{self.label(number)} has shape {node.shape}, got {x.shape}")
        return self.device.contiguous(x)

    def binding(self, arrays: Sequence[Array]) -> Binding:
        """The binding for arrays of these shapes. Raises ShapeError where they do not fit each other."""
        key = tuple([_solved(arrays[k].shape[axis], *rest) for k, axis, *rest in self._solving])
        binding = self._bound(key)
        for k, (x, shape) in enumerate(zip(arrays, binding.input_shapes, strict=True)):
            if x.shape != shape:
                raise ShapeError(
                    f"{self.label(k)} has shape {self.inputs[k].shape}, got {x.shape}{_at(binding)}"
                )
        return binding

    def _equation(self, name: str) -> tuple[int, int, int, int]:
        """Input, axis, factor and addend of the first dimension that holds only this symbol, once."""
        for k, node in enumerate(self.inputs):
            for axis, dim in enumerate(node.shape):
                if isinstance(dim, Poly) and _symbols(dim) == [name]:
                    addend = evaluate(dim, {name: 0})
                    factor = evaluate(dim, {name: 1}) - addend
                    if evaluate(dim, {name: 2}) == 2 * factor + addend:
                        return k, axis, factor, addend
        raise ShapeError(f"no input has a dimension from which the size of {name} follows")

    def _check_states(self) -> None:
        for old, new in self.states:
            if old not in self.inputs:
                raise ValueError(f"state {old} is no input of the plan")
            if (old.shape, old.dtype) != (new.shape, new.dtype):
                raise ValueError(f"state {old} would be replaced by {new}; shape and dtype must be the same")


def _symbols(dim: Dim) -> list[str]:
    return sorted({name for monomial, _ in dim.terms for name in monomial}) if isinstance(dim, Poly) else []


def _solved(size: int, factor: int, addend: int) -> int:
    return (size - addend) // factor


def _at(binding: Binding) -> str:
    sizes = ", ".join(f"{name} = {size}" for name, size in binding.sizes.items())
    return f" where {sizes}" if sizes else ""
