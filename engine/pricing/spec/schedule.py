"""The dates of a contract: when it is watched, when it averages, when it may be exercised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from engine.pricing.spec.fields import (
    MOST_TIMES,
    Context,
    Part,
    SpecError,
    choice,
    flag,
    integer,
    join,
    listing,
    number,
    optional,
    read_fields,
    require_mapping,
    require_rising,
)


@dataclass(frozen=True, slots=True)
class _Dates:
    """As requested: ``n`` equal steps up to T (t_i = i T / n, i = 1 … n), or explicit times."""

    n: Annotated[int | None, Part(optional(integer(1, MOST_TIMES)), "number of equal steps to T")] = None
    times: Annotated[
        tuple[float, ...] | None,
        Part(optional(listing(number(0.0), 1)), "explicit times in years, rising, none after T"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _MonitoringRequest(_Dates):
    kind: Annotated[
        Literal["continuous", "discrete"], Part(choice("continuous", "discrete"), "continuous or discrete")
    ] = "discrete"
    include_t0: Annotated[bool, Part(flag, "whether today's spot counts as watched")] = False


@dataclass(frozen=True, slots=True)
class Monitoring:
    """When the path is watched. ``times`` is None for always; discrete times start after today.

    ``include_t0``: today's spot counts too. It does so always where monitoring is continuous.
    """

    kind: Literal["continuous", "discrete"]
    times: tuple[float, ...] | None
    include_t0: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _AveragingRequest(_Dates):
    kind: Annotated[
        Literal["arithmetic", "geometric"], Part(choice("arithmetic", "geometric"), "the mean that is taken")
    ]
    continuous: Annotated[bool, Part(flag, "whether the average is an integral over [0, T]")] = False
    include_t0: Annotated[bool, Part(flag, "whether today's spot is a fixing too")] = False
    past_sum: Annotated[float, Part(number(), "see Averaging")] = 0.0
    past_count: Annotated[float, Part(number(0.0), "see Averaging")] = 0.0


@dataclass(frozen=True, slots=True)
class Averaging:
    """The fixings of an average. ``times`` is None for a continuous average over [0, T].

    A time of 0 is a fixing at today's spot. Seasoned contracts: ``past_sum`` is the sum of ``past_count``
    fixings before today (of their logarithms for a geometric mean). For a continuous average it is the
    integral so far, and ``past_count`` the years that it covers.
    """

    kind: Literal["arithmetic", "geometric"]
    continuous: bool
    times: tuple[float, ...] | None
    past_sum: float
    past_count: float

    @property
    def count(self) -> float:
        """All fixings, past ones included, for a discrete average."""
        return self.past_count + len(self.times or ())


@dataclass(frozen=True, slots=True)
class Schedule:
    """_Dates in years from today, rising."""

    times: tuple[float, ...]


def schedule(value: object, path: str, context: Context) -> Schedule:
    """``{"n": 50}`` or ``{"times": [...]}``."""
    dates = read_fields(_Dates, require_mapping(value, path), path, context)
    return Schedule(_resolve(dates, path, context))


def monitoring(value: object, path: str, context: Context) -> Monitoring:
    """``{"kind": "continuous"}`` or ``{"kind": "discrete", "n": 50}``; the kind is never assumed."""
    request = read_fields(_MonitoringRequest, require_mapping(value, path), path, context)
    if "kind" not in require_mapping(value, path):
        raise SpecError(join(path, "kind"), None, "must be given: continuous and discrete prices differ")
    if request.kind == "continuous":
        if request.n is not None or request.times is not None:
            raise SpecError(path, value, "must give no dates where its kind is continuous")
        return Monitoring("continuous", None, True)
    times = _resolve(request, path, context)
    later = tuple(time for time in times if time > 0.0 or context.expiry == 0.0)
    if not later:
        raise SpecError(join(path, "times"), list(times), "must have a time after today")
    return Monitoring("discrete", later, request.include_t0 or times[0] == 0.0)


def averaging(value: object, path: str, context: Context) -> Averaging:
    """``{"kind": "arithmetic", "n": 50}``, explicit ``times``, or ``"continuous": true``."""
    request = read_fields(_AveragingRequest, require_mapping(value, path), path, context)
    if request.past_count == 0.0 and request.past_sum != 0.0:
        raise SpecError(join(path, "past_count"), 0, "must be given with past_sum")
    if request.continuous:
        if request.n is not None or request.times is not None:
            raise SpecError(path, value, "must give no dates where it is continuous")
        times = None
    else:
        if request.past_count != int(request.past_count):
            raise SpecError(join(path, "past_count"), request.past_count, "must be a whole number of fixings")
        times = _resolve(request, path, context)
        if request.include_t0 and times[0] > 0.0:
            times = (0.0, *times)
    if request.kind == "arithmetic" and request.past_sum < 0.0:
        raise SpecError(join(path, "past_sum"), request.past_sum, "must be at least 0")
    return Averaging(request.kind, request.continuous, times, request.past_sum, request.past_count)


def _resolve(dates: _Dates, path: str, context: Context) -> tuple[float, ...]:
    if (dates.n is None) == (dates.times is None):
        raise SpecError(path, None, "must give either n or times")
    if dates.n is not None:
        return tuple(context.expiry * i / dates.n for i in range(1, dates.n + 1))
    times = dates.times or ()
    if context.expiry > 0.0:
        require_rising(times, join(path, "times"))
    if times[-1] > context.expiry:
        raise SpecError(join(path, "times"), times[-1], f"must not lie after T ({context.expiry:g})")
    return times
