"""How the fields of a request are read: each dataclass field carries the reader that checks its value.

A reader takes the value, its path (``"barrier.level"``) and what is already known of the request, and returns
what is stored. SpecError names path, value and rule. Nothing is guessed: a string is never a number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import cache
from math import inf, isfinite
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar, get_type_hints

from engine.errors import EngineError
from engine.pricing.spec.curve import Curve

LARGEST = 1e15
SMALLEST = 1e-50  # but 0, so that products and quotients of a few numbers are doubles
MOST_TIMES = 10_000

_T = TypeVar("_T")


class SpecError(EngineError, ValueError):
    """A field of a request breaks a rule: its path, its value, and the rule as "it …" goes on."""

    def __init__(self, path: str, value: object, rule: str) -> None:
        super().__init__(path, value, rule)
        self.path = path
        self.value = value
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.path} is {self.value!r}; it {self.rule}"


@dataclass(frozen=True, slots=True)
class Context:
    """What readers may rely on: the expiry in years, the number of assets, and whether |r| > 1 is meant."""

    expiry: float
    assets: int
    allow_extreme: bool = False


Reader: TypeAlias = Callable[[object, str, Context], Any]


class Part(NamedTuple):
    """What an annotation says of a field: ``Annotated[float, Part(number(0.0), "strike", "K")]``.

    ``wire`` is the field's name in requests where that differs from its name here.
    """

    read: Reader
    doc: str
    wire: str | None = None


def parts(cls: Any) -> Mapping[str, tuple[str, Part, bool]]:
    """The fields of a dataclass by their names in requests: name here, part, and whether it must be given."""
    return _parts(cls)


@cache
def _parts(cls: Any) -> Mapping[str, tuple[str, Part, bool]]:
    hints = get_type_hints(cls, include_extras=True)
    known = {}
    for field in dataclasses.fields(cls):
        part: Part = hints[field.name].__metadata__[0]
        known[part.wire or field.name] = (field.name, part, field.default is MISSING)
    return known


def read_fields(cls: type[_T], values: Mapping[str, object], path: str, context: Context) -> _T:
    """An instance of the dataclass ``cls`` from the fields of a request. SpecError for what breaks a rule."""
    known = parts(cls)
    for wire in values:
        if wire not in known:
            rule = f"is not a field here; fields are {', '.join(known)}"
            raise SpecError(join(path, wire), values[wire], rule)
    missing = [wire for wire, (_, _, required) in known.items() if required and wire not in values]
    if missing:
        besides = f", and so must {', '.join(missing[1:])}" if len(missing) > 1 else ""
        raise SpecError(join(path, missing[0]), None, f"must be given{besides}")
    read = {
        name: part.read(values[wire], join(path, wire), context)
        for wire, (name, part, _) in known.items()
        if wire in values
    }
    return cls(**read)


def join(path: str, name: str) -> str:
    """The path of field ``name`` of what lies at ``path``."""
    return f"{path}.{name}" if path else name


def require_mapping(value: object, path: str) -> Mapping[str, object]:
    """``value``, which must be a mapping with text keys."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise SpecError(path, value, "must be an object with named fields")
    return value


# ---- readers


def number(
    low: float = -LARGEST, high: float = LARGEST, *, above: float = -inf, below: float = inf
) -> Reader:
    """A finite number in [low, high], above and below the open limits; 0, or at least SMALLEST in size."""

    def read(value: object, path: str, context: Context) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SpecError(path, value, "must be a number")
        if isinstance(value, float) and not isfinite(value):
            raise SpecError(path, value, "must be a finite number")
        if value < low:
            raise SpecError(path, value, f"must be at least {low:g}")
        if value > high:
            raise SpecError(path, value, f"must be at most {high:g}")
        if value <= above:
            raise SpecError(path, value, f"must be greater than {above:g}")
        if value >= below:
            raise SpecError(path, value, f"must be less than {below:g}")
        if 0.0 < abs(value) < SMALLEST:
            raise SpecError(path, value, f"must be 0 or at least {SMALLEST:g} in size")
        return float(value)

    return read


def integer(low: int, high: int) -> Reader:
    """A whole number in [low, high]."""

    def read(value: object, path: str, context: Context) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise SpecError(path, value, "must be a whole number")
        if not low <= value <= high:
            raise SpecError(path, value, f"must be from {low} to {high}")
        return value

    return read


def choice(*names: str) -> Reader:
    """One of the given words, exactly as written."""

    def read(value: object, path: str, context: Context) -> str:
        if not isinstance(value, str) or value not in names:
            raise SpecError(path, value, f"must be one of {', '.join(names)}")
        return value

    return read


def flag(value: object, path: str, context: Context) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise SpecError(path, value, "must be true or false")
    return value


def text(longest: int) -> Reader:
    """A text of 1 to ``longest`` characters."""

    def read(value: object, path: str, context: Context) -> str:
        if not isinstance(value, str) or not 1 <= len(value) <= longest:
            raise SpecError(path, value, f"must be a text of 1 to {longest} characters")
        return value

    return read


def optional(reader: Reader) -> Reader:
    """What ``reader`` reads, or null."""

    def read(value: object, path: str, context: Context) -> Any:
        return None if value is None else reader(value, path, context)

    return read


def listing(reader: Reader, least: int = 0, most: int = MOST_TIMES) -> Reader:
    """A list of ``least`` to ``most`` items, as a tuple."""

    def read(value: object, path: str, context: Context) -> tuple[Any, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise SpecError(path, value, "must be a list")
        if not least <= len(value) <= most:
            raise SpecError(path, value, f"must have from {least} to {most} items; it has {len(value)}")
        return tuple(reader(item, f"{path}[{i}]", context) for i, item in enumerate(value))

    return read


@dataclass(frozen=True, slots=True)
class Constants:
    """Numbers by name, as pairs in the order of their names."""

    pairs: tuple[tuple[str, float], ...]


NO_CONSTANTS = Constants(())


def named_numbers(most: int) -> Reader:
    """At most ``most`` numbers by name."""
    level = number()

    def read(value: object, path: str, context: Context) -> Constants:
        values = require_mapping(value, path)
        if len(values) > most:
            raise SpecError(path, len(values), f"must have at most {most} names")
        for name in values:
            if not name.isidentifier():
                raise SpecError(path, name, "must have names of letters, digits and _")
        return Constants(
            tuple((name, level(values[name], join(path, name), context)) for name in sorted(values))
        )

    return read


def per_asset(reader: Reader) -> Reader:
    """One value for each asset, as a tuple; a single value stands for all assets."""

    def read(value: object, path: str, context: Context) -> tuple[Any, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            return (reader(value, path, context),) * context.assets
        if len(value) != context.assets:
            rule = f"must have one item for each of the {context.assets} assets; it has {len(value)}"
            raise SpecError(path, value, rule)
        return tuple(reader(item, f"{path}[{i}]", context) for i, item in enumerate(value))

    return read


def curve(low: float = -LARGEST, high: float = LARGEST) -> Reader:
    """A constant, or pieces ``{"until": [t1, …], "values": [v1, …]}``; the last value holds from then on."""
    level = number(low, high)

    def read(value: object, path: str, context: Context) -> Curve:
        if not isinstance(value, Mapping):
            return Curve((), (level(value, path, context),))
        pieces = read_fields(_Pieces, require_mapping(value, path), path, context)
        if len(pieces.values) != len(pieces.until) + 1:
            rule = f"must have one item more than until, which has {len(pieces.until)}"
            raise SpecError(join(path, "values"), list(pieces.values), rule)
        require_rising(pieces.until, join(path, "until"))
        values = listing(level)(pieces.values, join(path, "values"), context)
        return Curve(pieces.until, values)

    return read


def rate(value: object, path: str, context: Context) -> Curve:
    """A continuous rate or yield: a curve whose values may exceed 1 only where that is said to be meant."""
    read: Curve = curve()(value, path, context)
    for level in read.values:
        if abs(level) > 1 and not context.allow_extreme:
            raise SpecError(
                path, level, "must lie within -1 and 1 (0.05 is 5 %); set allow_extreme if it is meant"
            )
    return read


def require_rising(times: Sequence[float], path: str) -> None:
    """SpecError unless each time is later than the one before."""
    for i in range(1, len(times)):
        if times[i] <= times[i - 1]:
            raise SpecError(
                f"{path}[{i}]", times[i], f"must be later than the one before it ({times[i - 1]:g})"
            )


def nested(cls: type[Any]) -> Reader:
    """An object whose fields are those of the dataclass ``cls``."""

    def read(value: object, path: str, context: Context) -> Any:
        return read_fields(cls, require_mapping(value, path), path, context)

    return read


@dataclass(frozen=True, slots=True)
class _Pieces:
    until: Annotated[
        tuple[float, ...], Part(listing(number(above=0.0)), "times at which a piece ends, in years")
    ]
    values: Annotated[tuple[float, ...], Part(listing(number(), 1), "the value of each piece")]
