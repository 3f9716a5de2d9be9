"""From a text to an expression, by way of Python's syntax tree and a list of what may stand in it.

Nothing is compiled, looked up or called: the tree becomes data, and what is not on the list is refused.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Mapping
from typing import Any

from engine.expression.language import Call, Expression, ExpressionError, Function, Name, Number, Term
from engine.expression.operators import OPERATORS
from engine.expression.scan import Limits, scan

LARGEST = 2**63 - 1  # of an integer, as written or computed
_KINDS = {
    int: "a whole number",
    float: "a number with a point",
    bool: "True or False",
    tuple: "whole numbers in brackets",
}
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.USub: "-x",
    ast.Invert: "~x",
}
_ON_NUMBERS = {symbol: OPERATORS[symbol] for symbol in ("-x", "+", "-", "*", "/", "//", "%", "**")}
_INSTEAD: dict[type[ast.AST], str] = {
    ast.BoolOp: "and and or are written & and |",
    ast.Not: "not is written ~",
    ast.IfExp: "if and else are written where(condition, a, b)",
    ast.Lambda: "there are no lambdas",
    ast.GeneratorExp: "there are no comprehensions",
    ast.Tuple: "only one expression is asked for; a comma belongs into a call",
    ast.Starred: "there is no unpacking",
    ast.NamedExpr: "there is no assignment",
    ast.Attribute: "there are no attributes; write f(x) for x.f()",
    ast.Subscript: "there are no indices",
    ast.In: "in is not part of the language",
    ast.NotIn: "in is not part of the language",
    ast.Is: "is is not part of the language; compare with ==",
    ast.IsNot: "is is not part of the language; compare with !=",
}


def parse(
    text: str, names: Collection[str], functions: Mapping[str, Function], limits: Limits | None = None
) -> Expression:
    """The expression that ``text`` spells, over ``names`` and ``functions``.

    Operators are functions too, under their symbols; those of one operand are ``-x`` and ``~x``. What
    operators make of numbers alone is computed here. Raises ExpressionError: the character and the rule.
    """
    scan(text, limits or Limits())
    line = text.translate({ord("\n"): " ", ord("\t"): " "})
    try:
        tree = ast.parse(f"({line})", mode="eval")
    except SyntaxError as error:
        place = min(max((error.offset or 2) - 2, 0), len(text) - 1)
        raise ExpressionError(place, f"this is no expression: {error.msg}") from error
    except (RecursionError, MemoryError, ValueError) as error:
        raise ExpressionError(
            0, "the expression is too deep: too many operators inside each other"
        ) from error
    return Expression(text, _Reader(names, functions).read(tree.body))


class _Reader:
    """Turns a tree into terms, without recursion: a node is entered, then finished after its operands."""

    def __init__(self, names: Collection[str], functions: Mapping[str, Function]) -> None:
        self._names = names
        self._functions = functions
        self._terms: list[Term] = []
        self._places: list[int] = []  # of the terms that no operator has taken yet

    def read(self, tree: ast.expr) -> tuple[Term, ...]:
        stack: list[ast.expr | tuple[str, int, Mapping[str, Any], int]] = [tree]
        while stack:
            entry = stack.pop()
            if isinstance(entry, tuple):
                self._finish(*entry)
                continue
            position = max(entry.col_offset - 1, 0)  # for the bracket that parse has put around the text
            match entry:
                case ast.Constant():
                    self._add(Number(_number(entry.value, position), position))
                case ast.Name():
                    self._add(Name(self._known(entry.id, position), position))
                case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                    stack.append(operand)
                case _:
                    symbol, operands, options = self._call(entry, position)
                    stack.append((symbol, len(operands), options, position))
                    stack.extend(reversed(operands))
        return self._kept()

    def _call(self, node: ast.expr, position: int) -> tuple[str, list[ast.expr], Mapping[str, Any]]:
        """Symbol, operands and options of an operator or a call."""
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                return self._operator(_OPERATORS[type(op)], position), [left, right], {}
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
                return self._operator(_OPERATORS[type(op)], position), [operand], {}
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
                return self._operator(_OPERATORS[type(op)], position), [left, right], {}
            case ast.Compare(ops=[op]):
                raise ExpressionError(position, _INSTEAD[type(op)])
            case ast.Compare():
                raise ExpressionError(position, "comparisons are not chained; write (a < b) & (b < c)")
            case ast.Call(func=ast.Name(id=name), args=operands, keywords=keywords):
                return name, operands, self._options(name, len(operands), keywords, position)
            case ast.Call():
                raise ExpressionError(position, "only functions that have a name can be called")
            case ast.UnaryOp(op=op):
                raise ExpressionError(position, _INSTEAD[type(op)])
        kind = type(node)
        raise ExpressionError(position, _INSTEAD.get(kind, f"{kind.__name__} is not part of the language"))

    def _operator(self, symbol: str, position: int) -> str:
        if symbol not in self._functions:
            shown = symbol.removesuffix("x")
            raise ExpressionError(position, f"the operator {shown} is not part of the language")
        return symbol

    def _known(self, name: str, position: int) -> str:
        if name in self._names:
            return name
        if name in self._functions:
            raise ExpressionError(position, f"{name} is a function and must be called")
        raise ExpressionError(position, f"unknown name {name[:40]!r}; known are {_listed(self._names)}")

    def _options(
        self, name: str, operands: int, keywords: list[ast.keyword], position: int
    ) -> Mapping[str, Any]:
        """The options of a call, defaults included."""
        function = self._functions.get(name) if name.isidentifier() else None
        if function is None:
            rule = "is given, not called" if name in self._names else "is not known"
            functions = _listed(own for own in self._functions if own.isidentifier())
            raise ExpressionError(position, f"the function {name[:40]!r} {rule}; functions are {functions}")
        least, most = function.operands
        if not least <= operands <= most:
            wanted = (
                f"{least} operand{'s' * (least != 1)}" if least == most else f"{least} to {most} operands"
            )
            more = f"; options go by name: {', '.join(function.options)}" if function.options else ""
            raise ExpressionError(position, f"{name} takes {wanted}, not {operands}{more}")
        given: dict[str, Any] = {}
        for keyword in keywords:
            place, option = keyword.col_offset - 1, keyword.arg
            if option is None:
                raise ExpressionError(place, _INSTEAD[ast.Starred])
            if option not in function.options:
                known = ", ".join(function.options) or "none"
                raise ExpressionError(place, f"{name} has no option {option[:40]!r}; its options: {known}")
            if option in given:
                raise ExpressionError(place, f"{option} is given twice")
            given[option] = _option(option, keyword.value, function.options[option].kinds)
        return {own: given.get(own, option.default) for own, option in function.options.items()}

    def _finish(self, symbol: str, count: int, options: Mapping[str, Any], position: int) -> None:
        places = tuple(self._places[len(self._places) - count :])
        del self._places[len(self._places) - count :]
        operands = [self._terms[place] for place in places]
        numbers = [term.value for term in operands if isinstance(term, Number)]
        if len(numbers) == count and symbol in _ON_NUMBERS:
            self._add(Number(_computed(symbol, numbers, position), position))
        else:
            self._add(Call(symbol, places, options, position))

    def _add(self, term: Term) -> None:
        self._places.append(len(self._terms))
        self._terms.append(term)

    def _kept(self) -> tuple[Term, ...]:
        """The terms that the last one needs: numbers that went into others are left out."""
        needed = {len(self._terms) - 1}
        for place in range(len(self._terms) - 1, -1, -1):
            term = self._terms[place]
            if place in needed and isinstance(term, Call):
                needed.update(term.operands)
        renumbered: dict[int, int] = {}
        kept: list[Term] = []
        for place in sorted(needed):
            term = self._terms[place]
            if isinstance(term, Call):
                operands = tuple([renumbered[own] for own in term.operands])
                term = Call(term.function, operands, term.options, term.position)
            renumbered[place] = len(kept)
            kept.append(term)
        return tuple(kept)


def _number(value: Any, position: int) -> int | float:
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int and -LARGEST <= value <= LARGEST:
        return value
    if type(value) in (int, float):
        raise ExpressionError(position, "the number is too large: integers have 64 bits, floats are finite")
    if type(value) is complex:
        raise ExpressionError(position, "the power of a negative number to a fraction is not real")
    raise ExpressionError(position, f"{value!r} is not a number; True and False are for options only")


def _computed(symbol: str, numbers: list[int | float], position: int) -> int | float:
    """What an operator makes of numbers, bounded before it is computed."""
    if symbol == "**" and _power_bits(*numbers) > 64:
        raise ExpressionError(position, "the power is too large: integers have 64 bits, floats are finite")
    try:
        return _number(_ON_NUMBERS[symbol](*numbers), position)
    except ZeroDivisionError as error:
        raise ExpressionError(position, "division by zero") from error
    except OverflowError as error:
        raise ExpressionError(position, "the number is too large: floats are finite") from error


def _power_bits(base: float, exponent: float) -> float:
    """About how many bits a power of integers has; 0 for one of floats, which are bounded by themselves."""
    if not (isinstance(base, int) and isinstance(exponent, int)) or exponent <= 0:
        return 0
    return exponent * math.log2(max(abs(base), 1))


def _option(name: str, node: ast.expr, kinds: tuple[type, ...]) -> Any:
    """The value of an option: a number, True, False, or whole numbers in brackets."""
    position = node.col_offset - 1
    value = _literal(node)
    if isinstance(node, ast.Tuple):
        value = tuple([_literal(part) for part in node.elts])
        if any(type(part) is not int for part in value):
            value = None
    if type(value) not in kinds:
        raise ExpressionError(position, f"{name} must be {' or '.join(_KINDS[kind] for kind in kinds)}")
    return value


def _literal(node: ast.expr) -> Any:
    """A number or a bool as it is written, with its sign; None for anything else."""
    position = node.col_offset - 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _literal(node.operand) if isinstance(node.operand, ast.Constant) else None
        return None if inner is None or type(inner) is bool else -inner
    if not isinstance(node, ast.Constant):
        return None
    return node.value if type(node.value) is bool else _number(node.value, position)


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"
