"""The table of mutations fits the code; that each is noticed is ``make mutate``'s business."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_finds_its_text_once_and_its_test(mutation: Mutation) -> None:
    assert (ROOT / mutation.file).read_text().count(mutation.text) == 1
    assert mutation.instead != mutation.text
    functions = [
        node.name
        for node in ast.parse((ROOT / mutation.suite).read_text()).body
        if isinstance(node, ast.FunctionDef)
    ]
    wanted = mutation.test.partition("[")[0]
    assert any(name.startswith(wanted) for name in functions)


def test_names_are_not_used_twice() -> None:
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names)
