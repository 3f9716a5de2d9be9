"""Cash dividends, escrowed: the asset is what moves and, beside it, what dividends still to come are worth.

A dividend that is paid at a date is no longer part of the asset there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.pricing.montecarlo.numbers import Inputs
from engine.pricing.montecarlo.shifts import Shifts
from engine.pricing.spec import Spec
from engine.tensor import Tensor

Times = Callable[[Spec], Sequence[float]]


def has_dividends(spec: Spec) -> bool:
    """Whether something is paid up to expiry, so that the asset is more than what moves."""
    return spec.market.pays(0.0, spec.expiry)


def to_come(inputs: Inputs, shifts: Shifts, name: str, times: Times) -> Tensor:
    """What dividends after each of some times are worth there, [times, 1] or with one of each path.

    Shifts of the rate, which are zeros, add what they add to second order; one of time brings nothing nearer
    but seen from today.
    """
    worth = inputs.column(f"dividends after {name}", _moments(times, 0))
    rate, later = shifts.get("rate"), shifts.get("time")
    if rate is not None:
        first, second = (inputs.column(f"dividends after {name}, {k}", _moments(times, k)) for k in (1, 2))
        worth = worth - rate * first + rate * rate * second * 0.5
    if later is not None:
        now = inputs.scalar("rate now", lambda spec: spec.market.rate.values[0])
        today = inputs.column(f"today among {name}", lambda spec: [float(t == 0.0) for t in times(spec)])
        worth = worth * (-(later * today * (now if rate is None else now + rate))).exp()
    return worth


def worth_of(spec: Spec, time: float, power: int = 0) -> float:
    """What dividends after a time are worth there, each times a power of how long it takes."""
    market = spec.market
    due = [d for d in market.dividends if time < d.time <= spec.expiry]
    worth = [d.amount * market.discount(d.time) * (d.time - time) ** power for d in due]
    return sum(worth) / market.discount(time)


def _moments(times: Times, power: int) -> Callable[[Spec], list[float]]:
    return lambda spec: [worth_of(spec, time, power) for time in times(spec)]


def paid_on(inputs: Inputs, name: str, times: Times) -> Tensor:
    """The dividends that are paid on each of some dates, [times, 1]."""
    return inputs.column(f"dividends on {name}", lambda spec: [_paid(spec, time) for time in times(spec)])


def _paid(spec: Spec, time: float) -> float:
    return sum(d.amount for d in spec.market.dividends if d.time == time)
