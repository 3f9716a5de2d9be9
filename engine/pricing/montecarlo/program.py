"""A request's simulation as one graph: draws, paths, payoffs, Greeks, and the sums of each block.

Requests of the same form share a program; their numbers are inputs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from threading import Lock
from typing import Any

from engine.core.dtype import float32, float64, int64
from engine.pricing.montecarlo.blocks import BLOCK, Row
from engine.pricing.montecarlo.controls import Control, control_of
from engine.pricing.montecarlo.draws import Layout
from engine.pricing.montecarlo.factors import Factors, draw_factors
from engine.pricing.montecarlo.greeks import first_order, needs_second, second_order
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.models import Dynamics, dynamics_of
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.payoffs import payoff
from engine.pricing.montecarlo.settings import settings_of
from engine.pricing.montecarlo.shifts import Wanted, wanted
from engine.pricing.spec import Spec
from engine.pricing.spec.fields import Constants
from engine.record import Graph, RecordedPlan
from engine.tensor import Tensor, where
from engine.tensor.cell import apply

SUMS = 5  # of each column: Σy, Σy², Σx, Σx², Σxy, where x is the control
PROGRAMS_KEPT = 64


@dataclass(frozen=True)
class Program:
    """``columns`` are the price and its Greeks, in this order; each has SUMS sums a block."""

    plan: RecordedPlan
    numbers: Numbers
    names: tuple[str, ...]
    columns: tuple[Wanted, ...]
    control: Control | None
    layout: Layout
    steps: int

    def run(self, spec: Spec, feeds: Mapping[str, Tensor]) -> list[Row]:
        """The sums of each block."""
        own = self.numbers.feeds(spec, self.names)
        results: list[Tensor] = self.plan.run({**own, **feeds})
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
    graph = Graph()
    with graph:
        dynamics = dynamics_of(spec)
        numbers = Numbers(graph, spec, float32 if settings.precision == "float32" else float64)
        blocks = graph.symbol("blocks")
        counted = graph.input("counted", (blocks, 1), float64)
        steps = len(grid_of(spec).times)
        factors = draw_factors(numbers, settings, blocks, steps, dynamics.normals, dynamics.uniforms)
        columns = tuple(wanted(spec.greeks, spec.market.assets))
        control = control_of(spec)
        lanes = BLOCK * (2 if settings.antithetic else 1)
        samples = [_samples(numbers, dynamics, factors, columns, payoff, (blocks, 1, lanes))]
        if control is not None:
            samples.append(_samples(numbers, dynamics, factors, columns, control.payoff, (blocks, 1, lanes)))
        kept = apply("iota", (), (blocks, BLOCK), 1, int64).astype(float64) < counted
        outputs = [
            total
            for column in zip(*samples, strict=True)
            for total in _sums([_kept(x, kept, settings.antithetic) for x in column])
        ]
    plan = graph.compile(outputs)
    layout = Layout(steps * dynamics.normals, steps * dynamics.uniforms)
    names = tuple(plan.names)
    return Program(plan, numbers, names, columns, control, layout, steps)


def _samples(
    numbers: Numbers,
    dynamics: Dynamics,
    factors: Factors,
    columns: Sequence[Wanted],
    pays: Any,
    shape: tuple[Any, int, int],
) -> list[Tensor]:
    """The payoff of each path, then its part of each Greek."""
    if needs_second(columns):
        return second_order(numbers, dynamics, factors, columns, pays, shape)
    return first_order(numbers, dynamics, factors, columns, pays, shape)


def _kept(x: Tensor, kept: Tensor, antithetic: bool) -> Tensor:
    """The samples that count: of mirrored paths the mean of each pair."""
    x = x.astype(float64)
    if antithetic:
        x = (x[:, :BLOCK] + x[:, BLOCK:]) * 0.5
    return where(kept, x, 0.0)


def _sums(values: Sequence[Tensor]) -> list[Tensor]:
    y = values[0]
    own = [y.sum(1), (y * y).sum(1)]
    if len(values) == 1:
        return own
    x = values[1]
    return [*own, x.sum(1), (x * x).sum(1), (x * y).sum(1)]


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
        _shape_of(spec.model, ()),
        _shape_of(spec.market, ()),
        simulation,
        spec.greeks,
        len(grid.times),
        grid.seen,
        tuple(date == spec.expiry for date in dates),
    )


def _shape_of(value: Any, times: tuple[float, ...]) -> Any:
    """A value without its floats; the place of a date on the grid stands for the date."""
    if isinstance(value, Constants):
        return tuple(name for name, _ in value.pairs)
    if is_dataclass(value):
        return tuple(
            [
                tuple([times.index(t) if t in times else -1 for t in own])
                if field.name == "times" and (own := getattr(value, "times")) is not None and times
                else _shape_of(getattr(value, field.name), times)
                for field in fields(value)
            ]
        )
    if isinstance(value, tuple):
        return tuple([_shape_of(item, times) for item in value])
    return value != 0.0 if isinstance(value, float) else value
