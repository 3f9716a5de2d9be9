"""The expression language: what it reads, what it refuses and how, and that nothing is ever run."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.expression import Call, Expression, ExpressionError, Function, Limits, Option, parse

BINARY: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    "<": operator.lt,
    "==": operator.eq,
}


def _power(x: float, exponent: int) -> float:
    return x**exponent


VALUES: dict[str, Callable[..., Any]] = {
    **BINARY,
    "-x": operator.neg,
    "relu": lambda x: max(x, 0),
    "max": lambda *operands: max(operands),
    "raised": _power,
}


def _add_kind(a: object, b: object) -> str:
    if a == "word" or b == "word":
        raise ValueError("words do not add")
    return "number"


def _any_kind(*operands: object, **options: object) -> str:
    return "number"


FUNCTIONS = {
    **{symbol: Function((2, 2), _any_kind) for symbol in BINARY},
    "+": Function((2, 2), _add_kind),
    "-x": Function((1, 1), _any_kind),
    "relu": Function((1, 1), _any_kind),
    "max": Function((1, 2), _any_kind),
    "raised": Function((1, 1), _any_kind, {"exponent": Option(2, (int,))}),
}
NAMES = ("a", "b", "c")


def read(text: str) -> Expression:
    return parse(text, NAMES, FUNCTIONS)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a + b * c",
        "(a + b) * c",
        "-a ** 2",
        "(-a) ** 2",
        "+a - -b",
        "a - b - c",
        "a ** 2 ** 3",
        "a / b / c",
        "2 * 3 + a",
        "a * (1 / 3 - 2 ** 5)",
        "1.5e1 + .5 + 2. + a",
        "(a < b) == (b < c)",
        "\ta\n+\n(b)  ",
    ],
)
def test_an_expression_means_what_it_means_in_python(text: str) -> None:
    values = {"a": 1.25, "b": -3.0, "c": 0.5}
    assert read(text).evaluate(values, VALUES) == eval(f"({text})", {}, values)


def test_calls_have_operands_by_place_and_options_by_name() -> None:
    values = {"a": -2.0, "b": 3.0, "c": 0.0}
    assert read("relu(a) + max(a, b) - raised(b, exponent=3) + raised(a)").evaluate(values, VALUES) == -20.0


def test_terms_come_after_their_operands_and_none_is_left_over() -> None:
    terms = read("2 * 3 + a * (4 - 1)").terms
    assert len(terms) == 5
    for place, term in enumerate(terms):
        if isinstance(term, Call):
            assert all(operand < place for operand in term.operands)


def test_names_are_listed_in_the_order_of_their_reading() -> None:
    assert read("c + a * c").names == ("c", "a")


def test_rules_are_asked_term_by_term_and_their_errors_name_the_place() -> None:
    assert read("a + relu(b)").infer({"a": "number", "b": "number"}, FUNCTIONS)[-1] == "number"
    with pytest.raises(ExpressionError, match=r"at character 6: \+: words do not add") as caught:
        read("a * (b + c)").infer({"a": "number", "b": "number", "c": "word"}, FUNCTIONS)
    assert caught.value.position == 5


@pytest.mark.parametrize(
    ("text", "position", "rule"),
    [
        ("", 0, "empty"),
        ("  \n ", 0, "empty"),
        ("a.b", 1, "no attributes"),
        ("a.__class__", 1, "no attributes"),
        ("__import__", 0, "unknown name"),
        ("__import__(a)", 0, "is not known"),
        ("relu", 0, "must be called"),
        ("a(b)", 0, "given, not called"),
        ("relu(a)(b)", 0, "functions that have a name"),
        ("relu()", 0, "takes 1 operand, not 0"),
        ("max(a, b, c)", 0, "takes 1 to 2"),
        ("relu(*a)", 5, "unpacking"),
        ("relu(a, **b)", 8, "unpacking"),
        ("raised(a, 3)", 0, "options go by name: exponent"),
        ("raised(a, power=3)", 10, "no option 'power'"),
        ("raised(a, exponent=3, exponent=4)", 22, "given twice"),
        ("raised(a, exponent=2.5)", 19, "must be a whole number"),
        ("raised(a, exponent=True)", 19, "must be a whole number"),
        ("raised(a, exponent=(1, 2))", 19, "must be a whole number"),
        ("raised(a, exponent=b)", 19, "must be a whole number"),
        ("a and b", 0, "written & and |"),
        ("not a", 0, "written ~"),
        ("a if b else c", 0, "written where"),
        ("a < b < c", 0, "not chained"),
        ("a in b", 0, "in is not part"),
        ("a is b", 0, "compare with =="),
        ("a, b", 0, "only one expression"),
        ("a @ b", 0, "operator @ is not part"),
        ("~a", 0, "operator ~ is not part"),
        ("a[0]", 1, "no indices"),
        ("'a'", 0, "no text"),
        ("f'{a}'", 1, "no text"),
        ("lambda: a", 6, "no lambdas"),
        ("(a := b)", 3, "no statements"),
        ("(x for x in a)", 0, "no comprehensions"),
        ("a # b", 2, "no comments"),
        ("a\0", 1, "zero characters"),
        ("a\u200b", 1, "U\\+200B"),
        ("\N{CYRILLIC SMALL LETTER A}", 0, "ASCII"),
        ("\N{FULLWIDTH LATIN SMALL LETTER A}", 0, "ASCII"),
        ("a)", 1, "closes none"),
        (") + (", 0, "closes none"),
        ("((a)", 0, "never closed"),
        ("12a", 2, "follows a number"),
        ("0x10", 1, "follows a number"),
        ("1j", 1, "follows a number"),
        ("1e999", 0, "too large"),
        ("9" * 39, 0, "too large"),
        ("9" * 5000, 0, "at most 40"),
        ("10 ** 10 ** 10", 0, "too large"),
        ("2.0 ** 5000", 0, "too large"),
        ("(0 - 8) ** 0.5", 0, "not real"),
        ("1 / 0", 0, "division by zero"),
        ("a = b", 0, "no expression"),
        ("max(a b)", 4, "no expression"),
        ("True", 0, "not a number"),
        ("None", 0, "not a number"),
        ("await a", 0, "Await is not part"),
    ],
)
def test_everything_else_is_refused_at_its_character(text: str, position: int, rule: str) -> None:
    with pytest.raises(ExpressionError, match=rule) as caught:
        read(text)
    assert caught.value.position == position


@pytest.mark.parametrize(
    "text",
    [
        "(" * 51 + "a" + ")" * 51,
        "-" * 100_000 + "a",
        "-" * 2_001 + "a",
        "a" + "+a" * 20_000,
        "relu(" * 60 + "a" + ")" * 60,
        "a" * 10_001,
        "a" + "**a" * 1_500,
    ],
)
def test_limits_come_before_python_sees_the_text(text: str) -> None:
    with pytest.raises(ExpressionError):
        read(text)


@pytest.mark.parametrize(
    "text", ["a" + "+a" * 900, "-" * 1_900 + "a", "a" + "**a" * 900, "a" + " if a else a" * 400]
)
def test_long_texts_within_the_limits_are_read_or_refused(text: str) -> None:
    try:
        assert len(read(text).terms) > 900
    except ExpressionError as error:
        assert "where(" in error.rule


PIECES = [
    "a",
    "b",
    "x",
    "1",
    ".5",
    "(",
    ")",
    "+",
    "-",
    "**",
    "<",
    ",",
    "=",
    "relu",
    "max",
    " ",
    "if",
    "not",
    "0x",
]


@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        expression = read(text)
    except ExpressionError as error:
        assert 0 <= error.position <= len(text)
        assert error.rule
    else:
        assert set(expression.names) <= set(NAMES)


def test_limits_can_be_narrower() -> None:
    with pytest.raises(ExpressionError, match="at most 5"):
        parse("a + b + c", NAMES, FUNCTIONS, Limits(characters=5))
    with pytest.raises(ExpressionError, match="more than 3"):
        parse("a + b + c", NAMES, FUNCTIONS, Limits(tokens=3))
