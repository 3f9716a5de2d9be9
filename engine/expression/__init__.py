"""A small, safe language of expressions: parsed from text to data, never executed as Python."""

from engine.expression.language import (
    Call,
    Expression,
    ExpressionError,
    Function,
    Literal,
    Name,
    Number,
    Option,
    Term,
)
from engine.expression.reader import parse
from engine.expression.scan import Limits

__all__ = [
    "Call",
    "Expression",
    "ExpressionError",
    "Function",
    "Limits",
    "Literal",
    "Name",
    "Number",
    "Option",
    "Term",
    "parse",
]
