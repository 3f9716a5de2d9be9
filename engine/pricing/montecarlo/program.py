"""A request's simulation as one graph: draws, paths, payoffs, Greeks, and the sums of each block.

Requests of the same form share a program; their numbers are inputs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from threading import Lock
from typing import Any

from engine.core.dim import Dim
from engine.core.dtype import float32, float64, int64
from engine.pricing.montecarlo import smoothed, survival
from engine.pricing.montecarlo.blocks import BLOCK, Row
from engine.pricing.montecarlo.controls import Control, control_of
from engine.pricing.montecarlo.dividends import has_dividends
from engine.pricing.montecarlo.factors import Needs, draw_factors
from engine.pricing.montecarlo.greeks import Scene, refusal, samples
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.models import dynamics_of, form_of, needs_of
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.paths import Path
from engine.pricing.montecarlo.payoffs import payoff
from engine.pricing.montecarlo.settings import settings_of
from engine.pricing.montecarlo.shifts import Wanted, wanted
from engine.pricing.montecarlo.smoothing import is_smoothed
from engine.pricing.montecarlo.tilt import is_tilted, is_wide, tilted
from engine.pricing.montecarlo.walk import Draws, Source, Walk, is_walked
from engine.pricing.spec import Cev, LocalVol, Spec
from engine.pricing.spec.fields import Constants
from engine.record import Graph
from engine.tensor import Tensor, cat, where
from engine.tensor.cell import apply

PROGRAMS_KEPT = 64
MOST_COMPILED = 1500  # nodes of a graph, those within loops aside: the build of its kernels takes seconds


@dataclass(frozen=True, slots=True)
class Runner:
    """What computes the outputs of a graph, and the inputs that it takes."""

    names: tuple[str, ...]
    run: Callable[[Mapping[str, Tensor]], list[Tensor]]


@dataclass(frozen=True, slots=True)
class Program:
    """``columns`` are the Greeks behind the price; each column has its sums in every block."""

    runner: Runner
    numbers: Numbers
    columns: tuple[Wanted, ...]
    control: Control | None
    needs: Needs
    summing: Runner | None
    """What sums the samples of all parts of blocks; None where there is one part, which sums them itself."""

    def feeds(self, spec: Spec) -> dict[str, Tensor]:
        """The numbers of a request."""
        return self.numbers.feeds(spec, self.runner.names)

    def run(
        self, feeds: Mapping[str, Tensor], parts: Sequence[Mapping[str, Tensor]], counted: Tensor
    ) -> list[Row]:
        """The sums of each block, of which ``counted`` samples are taken, from the draws of its ``parts``."""
        if self.summing is None:
            results = self.runner.run({**feeds, **parts[0], "counted": counted})
        else:
            found = [self.runner.run({**feeds, **part, "counted": counted}) for part in parts]
            joined = [cat(list(own), 1) for own in zip(*found, strict=True)]
            named = {f"samples {k}": x for k, x in enumerate(joined)}
            results = self.summing.run({**named, "counted": counted})
        return list(zip(*[x.tolist() for x in results], strict=True))


def program_of(spec: Spec) -> Program:
    """The program of requests of this form, recorded when it is first asked for."""
    key = _form(spec)
    with _LOCK:
        found = _PROGRAMS.get(key)
        if found is None:
            found = _PROGRAMS[key] = _record(spec)
            while len(_PROGRAMS) > PROGRAMS_KEPT:
                _PROGRAMS.popitem(last=False)
        _PROGRAMS.move_to_end(key)
    return found


_PROGRAMS: OrderedDict[Any, Program] = OrderedDict()
_LOCK = Lock()


def _record(spec: Spec) -> Program:
    settings = settings_of(spec)
    spec = replace(spec, simulation=settings)
    columns = _estimated(spec)
    control, needs = control_of(spec), needs_of(spec)
    graph = Graph()
    with graph:
        numbers = Numbers(graph, spec, float32 if settings.precision == "float32" else float64)
        blocks = graph.symbol("blocks")
        counted = graph.input("counted", (blocks, 1), float64)
        lanes = needs.layout.lanes
        scenes = _scenes(numbers, control, columns, blocks)
        found = [[_paired(x, own.shape[2], lanes) for x in samples(own, columns)] for own in scenes]
        by_column = list(zip(*found, strict=True))
        if lanes == BLOCK:
            outputs = _sums(by_column, counted)
        else:  # the zero tells how many blocks there are
            outputs = [x + counted * 0.0 for column in by_column for x in column]
    summing = None if lanes == BLOCK else _summing(len(by_column), len(scenes))
    is_looped = scenes[0].factors is None or isinstance(spec.model, Cev | LocalVol)
    runner = _runner(graph, outputs, is_looped)
    return Program(runner, numbers, columns, control, needs, summing)


def _estimated(spec: Spec) -> tuple[Wanted, ...]:
    """The Greeks of a request that can be estimated."""
    return tuple([own for own in wanted(spec.greeks, spec.market.assets) if refusal(spec, own) is None])


def _scenes(numbers: Numbers, control: Control | None, columns: Sequence[Wanted], blocks: Dim) -> list[Scene]:
    """What samples of the payoff are made of, and those of its control."""
    spec, settings = numbers.spec, settings_of(numbers.spec)
    needs, dynamics = needs_of(spec), dynamics_of(spec)
    lanes = needs.layout.lanes
    shape = (blocks, 1, lanes * (2 if settings.antithetic else 1))
    factors, pays = None, [payoff] if control is None else [payoff, control.payoff]
    if is_walked(spec, control, columns):
        source: Source = Draws.of(numbers, blocks, lanes)
        simulate = partial(Walk.of(spec, control).simulate, numbers, source)
    else:
        factors = draw_factors(numbers, settings, blocks, needs)
        if is_tilted(spec):
            factors, weight = tilted(numbers, factors)
            pays = [_times(own, weight) for own in pays]
        source = survival.Arrays(numbers, dynamics, factors)
        simulate = partial(dynamics.simulate, numbers, factors)
    ways = [simulate, simulate]
    if is_smoothed(spec):
        ways = [partial(own, numbers, source) for own in (survival.simulate, survival.freely)]
        pays[0] = smoothed.payoff
    pairs = zip(ways, pays, strict=False)
    return [Scene(numbers, way, own, shape, dynamics, factors) for way, own in pairs]


def _times(pays: Callable[[Path], Tensor], weight: Tensor) -> Callable[[Path], Tensor]:
    return lambda path: pays(path) * weight


def _summing(columns: int, each: int) -> Runner:
    graph = Graph()
    with graph:
        blocks = graph.symbol("blocks")
        counted = graph.input("counted", (blocks, 1), float64)
        given = [graph.input(f"samples {k}", (blocks, BLOCK), float64) for k in range(columns * each)]
        outputs = _sums([given[k * each : (k + 1) * each] for k in range(columns)], counted)
    return _runner(graph, outputs)


def _runner(graph: Graph, outputs: list[Tensor], is_looped: bool = False) -> Runner:
    """A plan, or node by node where a path has too many different steps to compile them all."""
    lines = graph.text(outputs).splitlines()
    if is_looped or sum(not line.startswith(" ") for line in lines) <= MOST_COMPILED:
        plan = graph.compile(outputs)
        return Runner(tuple(plan.names), plan.run)
    names = tuple(graph.names(outputs))
    return Runner(names, lambda feeds: graph.interpret(outputs, feeds))


def _paired(x: Tensor, given: int, lanes: int) -> Tensor:
    """Samples in float64, [blocks, lanes]: of mirrored paths the mean of each pair."""
    x = x.astype(float64)
    return x if given == lanes else (x[:, :lanes] + x[:, lanes:]) * 0.5


def _sums(columns: Sequence[Sequence[Tensor]], counted: Tensor) -> list[Tensor]:
    """Σy, Σy², and with a control x also Σx, Σx², Σxy, of each block and column, over what counts."""
    blocks = counted.shape[0]
    kept = apply("iota", (), (blocks, BLOCK), 1, int64).astype(float64) < counted
    sums = []
    for column in columns:
        y, *controls = [where(kept, x, 0.0) for x in column]
        sums += [y.sum(1), (y * y).sum(1)]
        for x in controls:
            sums += [x.sum(1), (x * x).sum(1), (x * y).sum(1)]
    return sums


def _form(spec: Spec) -> tuple[Any, ...]:
    """What decides the graph: everything but the values of numbers, of which only zeros are told apart."""
    settings = settings_of(spec)
    grid = grid_of(spec)
    simulation = replace(settings, paths=None, target_se=None, max_seconds=1.0, seed=0, scramble_replicates=8)
    product = spec.product
    dates = [getattr(product, name, None) for name in ("choice", "start")]
    return (
        type(product),
        _shape_of(product, grid.times),
        type(spec.model),
        form_of(spec),
        is_tilted(spec),
        _shape_of(spec.model, ()),
        _shape_of(spec.market, ()),
        simulation,
        spec.greeks,
        tuple([own.name for own in _estimated(spec)]),
        is_smoothed(spec),
        is_wide(spec),
        len(grid.times),
        grid.seen,
        grid.times[-1] == spec.expiry,
        has_dividends(spec),
        tuple(date == spec.expiry for date in dates),
    )


def _shape_of(value: Any, times: tuple[float, ...]) -> Any:
    """A value without its floats; the place of a date on the grid stands for the date."""
    if isinstance(value, Constants):
        return tuple(name for name, _ in value.pairs)
    if is_dataclass(value):
        return tuple([_part_of(field.name, getattr(value, field.name), times) for field in fields(value)])
    if isinstance(value, tuple):
        return tuple([_shape_of(item, times) for item in value])
    return value != 0.0 if isinstance(value, float) else value


def _part_of(name: str, value: Any, times: tuple[float, ...]) -> Any:
    if name == "times" and value is not None and times:
        return tuple([times.index(time) if time in times else -1 for time in value])
    return _shape_of(value, times)
