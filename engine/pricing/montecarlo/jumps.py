"""Numbers of jumps: Poisson, drawn by inversion of one uniform."""

from __future__ import annotations

from math import exp

from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.numbers import Getters, Numbers
from engine.pricing.montecarlo.paths import over_steps
from engine.pricing.montecarlo.shifts import Shifts
from engine.pricing.spec import Spec
from engine.tensor import Tensor

_TAIL = 1e-14  # probability of more jumps than are told apart


def expected_jumps(spec: Spec) -> list[float]:
    """The expected number of jumps in each step."""
    intensity: float = spec.model.intensity  # type: ignore[attr-defined]
    return over_steps(lambda _, begin, end: intensity * (end - begin))(spec)


def most_jumps(spec: Spec) -> int:
    """The largest number of jumps in a step that is told apart, as a power of two."""
    most = max(expected_jumps(spec))
    count, term, left = 0, exp(-most), 1.0 - exp(-most)
    while left > _TAIL and count < 1024:
        count += 1
        term *= most / count
        left -= term
    return 1 << max(count, 1).bit_length()


def poisson(numbers: Numbers, shifts: Shifts, uniforms: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """The number of jumps in each step [blocks, dates, paths], the drift that compensates them, and a weight.

    The number jumps as the time to the first date is shifted; so it is held, and its probability moves:
    the weight has the value 1 and the derivative of the probability.
    """
    most = most_jumps(numbers.spec)
    count: Tensor | None = None
    for k in range(most):
        level = numbers.column(f"jumps {k}", _cumulative(k))
        more = (uniforms > level).astype(uniforms.dtype)
        count = more if count is None else count + more
    assert count is not None
    expected = numbers.column("expected jumps", expected_jumps)
    mean_jump = numbers.scalar("mean jump", _mean_jump)
    compensator = expected * mean_jump
    later = shifts.get("time")
    if later is None:
        return count, compensator, None
    intensity = numbers.scalar("intensity", lambda spec: spec.model.intensity)  # type: ignore[attr-defined]
    first = numbers.column("first", _first)
    moved = expected + later * intensity * first
    log = ((count * moved.log() - moved) * first).sum(1)
    return count, moved * mean_jump, (log - log.detach()).exp()


def _first(spec: Spec) -> list[float]:
    return [1.0, *[0.0] * (len(grid_of(spec).times) - 1)]


def _mean_jump(spec: Spec) -> float:
    return exp(spec.model.mean + 0.5 * spec.model.deviation**2) - 1.0  # type: ignore[attr-defined]


def _cumulative(k: int) -> Getters:
    """The probability of at most k jumps in each step."""

    def each(spec: Spec) -> list[float]:
        found = []
        for mean in expected_jumps(spec):
            term = total = exp(-mean)
            for i in range(1, k + 1):
                term *= mean / i
                total += term
            found.append(min(total, 1.0))
        return found

    return each
