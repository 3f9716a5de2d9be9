"""What an expression is once it is read: terms in the order of their computation. Tables of functions give
them a meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from engine.errors import EngineError

T = TypeVar("T")

Literal: TypeAlias = bool | int | float


class ExpressionError(EngineError, ValueError):
    """A text breaks a rule of the language: ``position`` is its character, counted from 0."""

    def __init__(self, position: int, rule: str) -> None:
        super().__init__(f"at character {position + 1}: {rule}")
        self.position = position
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Option:
    """A keyword of a function: its default, and what it may be: int, float, bool, tuple (of ints)."""

    default: Any
    kinds: tuple[type, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """What may be called, or written as an operator.

    ``operands`` are the least and the most it takes. ``rule`` tells what a call gives from what its operands
    and options are; its ValueError, TypeError or IndexError becomes an error at the call.
    """

    operands: tuple[int, int]
    rule: Callable[..., Any]
    options: Mapping[str, Option] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Name:
    """A value that is given from outside."""

    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written, or the value of one that is computed from numbers alone."""

    value: int | float
    position: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator on earlier terms, which are named by their places."""

    function: str
    operands: tuple[int, ...]
    options: Mapping[str, Any]
    position: int


Term: TypeAlias = Name | Number | Call


@dataclass(frozen=True, slots=True)
class Expression:
    """Terms, each after its operands; the last one is the result."""

    text: str
    terms: tuple[Term, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are read, in the order of their first reading."""
        return tuple(dict.fromkeys(term.name for term in self.terms if isinstance(term, Name)))

    def evaluate(self, values: Mapping[str, T], functions: Mapping[str, Callable[..., T]]) -> T | Literal:
        """The value of the expression: ``functions`` are called with operands and with options by keyword.

        An operand that is a number is passed as a Python number.
        """
        results: list[Any] = []
        for term in self.terms:
            if isinstance(term, Call):
                operands = [results[place] for place in term.operands]
                results.append(functions[term.function](*operands, **term.options))
            else:
                results.append(values[term.name] if isinstance(term, Name) else term.value)
        result: T | Literal = results[-1]
        return result

    def infer(self, kinds: Mapping[str, T], functions: Mapping[str, Function]) -> list[T | Literal]:
        """What each term is by the rules of ``functions``. Raises ExpressionError at the first wrong one."""
        results: list[Any] = []
        for term in self.terms:
            if isinstance(term, Call):
                operands: Sequence[Any] = [results[place] for place in term.operands]
                try:
                    results.append(functions[term.function].rule(*operands, **term.options))
                except (ValueError, TypeError, IndexError) as error:
                    raise ExpressionError(term.position, f"{term.function}: {error}") from error
            else:
                results.append(kinds[term.name] if isinstance(term, Name) else term.value)
        return results
