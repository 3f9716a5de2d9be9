"""The language of custom payoffs: ``max(mean(S) - K, 0) * (max(S) < B)``. Nothing here computes.

S (S1, S2, … with several assets) is the path at the monitoring times, with today where monitoring says so.
"""

from __future__ import annotations

from keyword import iskeyword
from typing import Literal, TypeAlias

from engine.expression import Expression, ExpressionError, Function, parse
from engine.pricing.spec.fields import SpecError
from engine.pricing.spec.products import Custom
from engine.pricing.spec.spec import Spec

Kind: TypeAlias = Literal["path", "number", "condition path", "condition"]
"""``path``: a number a date; ``condition``: true or false."""


def _along(*operands: object) -> bool:
    return any(operand in ("path", "condition path") for operand in operands)


def _arithmetic(*operands: object) -> Kind:
    return "path" if _along(*operands) else "number"


def _comparison(*operands: object) -> Kind:
    return "condition path" if _along(*operands) else "condition"


def _logic(*operands: object) -> Kind:
    if not all(str(operand).startswith("condition") for operand in operands):
        raise TypeError("takes conditions, such as (S < B)")
    return _comparison(*operands)


def _over_dates(x: object) -> Kind:
    if x != "path":
        raise TypeError("takes the path: a number for each date")
    return "number"


def _extreme(*operands: object) -> Kind:
    return _over_dates(*operands) if len(operands) == 1 else _arithmetic(*operands)


def _quantifier(x: object) -> Kind:
    if x != "condition path":
        raise TypeError("takes a condition for each date, such as (S < B)")
    return "condition"


def _choice(condition: object, a: object, b: object) -> Kind:
    if not str(condition).startswith("condition"):
        raise TypeError("takes a condition first, such as (S < B)")
    return _arithmetic(condition, a, b)


FUNCTIONS: dict[str, Function] = {
    **{symbol: Function((2, 2), _arithmetic) for symbol in ("+", "-", "*", "/", "**")},
    "-x": Function((1, 1), _arithmetic),
    **{symbol: Function((2, 2), _comparison) for symbol in ("<", "<=", ">", ">=")},
    "&": Function((2, 2), _logic),
    "|": Function((2, 2), _logic),
    "~x": Function((1, 1), _logic),
    **{name: Function((1, 1), _arithmetic) for name in ("exp", "log", "sqrt", "abs")},
    **{name: Function((1, 1), _over_dates) for name in ("mean", "sum", "first", "last")},
    **{name: Function((1, 2), _extreme) for name in ("max", "min")},
    **{name: Function((1, 1), _quantifier) for name in ("any", "all")},
    "where": Function((3, 3), _choice),
}
_JUMPS = {"<", "<=", ">", ">=", "any", "all", "where"}


def path_names(assets: int) -> list[str]:
    """What the assets are called."""
    return ["S"] if assets == 1 else [f"S{i + 1}" for i in range(assets)]


def read_payoff(spec: Spec) -> Expression:
    """The checked expression of a custom product. SpecError where it is none, or is not one number."""
    product = spec.product
    assert isinstance(product, Custom)
    kinds: dict[str, Kind] = dict.fromkeys(path_names(spec.market.assets), "path")
    for name, _ in product.constants.pairs:
        if name in kinds or name in FUNCTIONS or iskeyword(name) or not name.isascii():
            rule = "must have names of ASCII letters that mean nothing else in a payoff"
            raise SpecError("constants", name, rule)
        kinds[name] = "number"
    try:
        expression = parse(product.payoff, kinds, FUNCTIONS)
        result = expression.infer(kinds, FUNCTIONS)[-1]
    except ExpressionError as error:
        raise SpecError("payoff", product.payoff, f"must be an expression: {error}") from error
    if not any(kinds[name] == "path" for name in expression.names):
        raise SpecError("payoff", product.payoff, "must read the path")
    if _along(result):
        rule = "must be one number for a path; take last(…), max(…) or mean(…) of what has one for each date"
        raise SpecError("payoff", product.payoff, rule)
    return expression


def is_smooth(expression: Expression) -> bool:
    """Whether nothing in it can jump, so that it may be differentiated along the path."""
    return not any(_function(term) in _JUMPS for term in expression.terms)


# ---- where a payoff bends or jumps, if the path begins with today

Today: TypeAlias = Literal["constant", "later", "picked", "mixed"]
"""How a value depends on today's spot: not at all (``later``: on the path after it), as one of several of
which one is picked, or together with other numbers.
"""

_ORDER: tuple[Today, ...] = ("constant", "later", "picked", "mixed")
_BENDS = {"<", "<=", ">", ">=", "max", "min", "abs"}


def _most(*operands: object) -> Today:
    """That of the operand with the closest tie."""
    return max((own for own in _ORDER if own in operands), key=_ORDER.index, default="constant")


def _together(*operands: object) -> Today:
    """A picked value beside another one that moves is mixed with it."""
    moving = [own for own in operands if own in _ORDER[1:]]
    return "mixed" if len(moving) > 1 and _most(*moving) == "picked" else _most(*moving)


def _later(x: object) -> object:
    return "later" if x == "picked" else x


_TIES: dict[str, Function] = {
    **{name: Function(own.operands, _most) for name, own in FUNCTIONS.items()},
    **{name: Function((2, 2), _together) for name in ("+", "-", "*", "/", "**", "<", "<=", ">", ">=")},
    **{name: Function((1, 2), _together) for name in ("max", "min")},
    **{name: Function((1, 1), lambda x: "mixed") for name in ("mean", "sum")},
    "last": Function((1, 1), _later),
}
_DENSE = {**_TIES, **{name: Function((1, 1), _later) for name in ("mean", "sum")}}
"""Of so many dates that today is next to nothing among them."""


def bends_with_today(spec: Spec, least: Today) -> bool:
    """Whether a payoff bends or jumps where a value depends on today's spot at ``least`` that closely."""
    product, expression = spec.product, read_payoff(spec)
    assert isinstance(product, Custom)
    if not product.monitoring.include_t0:
        return False
    known: dict[str, Today] = dict.fromkeys(expression.names, "constant")
    known |= dict.fromkeys(path_names(spec.market.assets), "picked")
    found = expression.infer(known, _DENSE if product.monitoring.times is None else _TIES)
    bent = [own for term, own in zip(expression.terms, found, strict=True) if _function(term) in _BENDS]
    return any(_ORDER.index(own) >= _ORDER.index(least) for own in bent if own in _ORDER)


def _function(term: object) -> str:
    return getattr(term, "function", "")
