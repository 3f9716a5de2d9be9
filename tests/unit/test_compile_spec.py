"""Compile specs: what they cost, what is refused, and hostile programs, all refused or bounded."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from hostile_programs import BOUNDED, GRAPH, HOSTILE, body_of, inputs, looped
from pydantic import ValidationError

from service.errors import InvalidFieldsError
from service.jobs.lanes import BATCH
from service.specs import Prepared
from service.specs.compile import CAPS, Compile
from service.specs.compile import prepare as prepare_compile

ABC = inputs(a=(10, 20), b=(10, 20), c=(10, 20))


def prepare(**body: Any) -> Prepared:
    return asyncio.run(prepare_compile(Compile.model_validate(body), None))  # type: ignore[arg-type]


def refusal(**body: Any) -> InvalidFieldsError:
    with pytest.raises(InvalidFieldsError) as caught:
        prepare(**body)
    return caught.value


def test_an_expression_is_priced_by_its_shapes() -> None:
    small = prepare(expression="relu(a + b) * c", inputs=ABC)
    large = prepare(expression="relu(a + b) * c", inputs=inputs(a=(20, 20), b=(20, 20), c=(20, 20)))
    with_gradients = prepare(expression="relu(a + b) * c", inputs=ABC, gradients=True)
    assert small.lane == BATCH
    for name in ("flops", "memory_bytes"):
        assert 2 * small.estimate[name] == large.estimate[name]
        assert 3 * small.estimate[name] == with_gradients.estimate[name]


def test_the_prepared_spec_can_be_prepared_again() -> None:
    for body in ({"expression": "a * 2", "inputs": inputs(a=(3,))}, {"graph": GRAPH}, {"preset": "forge"}):
        once = prepare(**body)
        assert prepare(**once.spec).spec == once.spec


def test_a_graph_is_priced_by_its_nodes() -> None:
    estimate = prepare(graph=GRAPH).estimate
    assert estimate["memory_bytes"] == 2 * 48
    assert (
        prepare(graph=GRAPH, gradients=True).estimate["memory_bytes"] == 4 * 48 + 4
    )  # and 1, spread, times y


def test_turns_are_priced_by_what_starting_their_nodes_takes() -> None:
    once, often = (prepare(graph=looped(limit)).estimate for limit in (1, 1000))
    assert often["flops"] == 1000 * once["flops"] > 1e8
    assert often["memory_bytes"] - once["memory_bytes"] >= 999 * (48 + 512)
    assert prepare(graph=looped(1000), gradients=True).estimate["flops"] > 3 * often["flops"]


@pytest.mark.parametrize(
    "body", [{}, {"graph": GRAPH, "preset": "forge"}, {"expression": "a", "preset": "forge"}]
)
def test_exactly_one_program_is_given(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="exactly one"):
        prepare(**body)


@pytest.mark.parametrize(
    ("body", "param", "rule"),
    [
        ({"graph": GRAPH, "inputs": ABC}, "spec.inputs", "for expressions"),
        ({"expression": "a + b", "inputs": ABC}, "spec.inputs.c", "not read"),
        ({"expression": "relu", "inputs": inputs(relu=(1,))}, "spec.inputs.relu", "name of a function"),
        ({"expression": "a + d * b", "inputs": ABC}, "spec.expression", "at character 5: unknown name 'd'"),
        ({"expression": "1 + 2"}, "spec.expression", "must read an input"),
        (
            {"expression": "a > 0", "inputs": inputs(a=(1,)), "gradients": True},
            "spec.gradients",
            "float result",
        ),
        ({"graph": {**GRAPH, "targets": ["z"]}}, "spec.graph.targets.0", "earlier node"),
        ({"graph": {}}, "spec.graph", "must be given"),
    ],
)
def test_what_cannot_be_compiled_is_named(body: dict[str, Any], param: str, rule: str) -> None:
    problem = refusal(**body)
    assert problem.param == param and problem.status == 422
    assert rule in problem.detail


@pytest.mark.parametrize("name", CAPS)
def test_each_cap_of_a_compile_job_is_kept(name: str) -> None:
    problem = refusal(expression="a @ a", inputs=inputs(a=(2**15, 2**15)))
    assert problem.code == "too-costly"
    assert CAPS[name].unit in problem.detail


def test_the_reference_device_is_for_small_programs() -> None:
    small, large = inputs(a=(10, 20)), inputs(a=(1000, 1000))
    plain, beside = (
        prepare(expression="exp(a)", inputs=small, devices=devices)
        for devices in (["cpu"], ["reference", "cpu"])
    )
    assert plain.estimate["flops"] == beside.estimate["flops"] == 18 * 200
    assert plain.estimate["seconds"] < beside.estimate["seconds"]
    assert prepare(expression="a", inputs=small).spec["devices"] == ["cpu"]
    problem = refusal(
        expression="exp(exp(exp(exp(exp(exp(exp(a)))))))", inputs=large, devices=["cpu", "reference"]
    )
    assert "1e+08; make the inputs smaller, or leave reference out of devices" in problem.detail


@pytest.mark.parametrize(
    "devices", [[], ["reference"], ["cpu", "cpu"], ["cuda"], "cpu", ["cpu", "reference", "cpu"]]
)
def test_programs_are_compiled_for_the_cpu(devices: Any) -> None:
    with pytest.raises(ValidationError, match="devices"):
        prepare(expression="a + 1", inputs=inputs(a=(3,)), devices=devices)


def test_there_are_fifty_hostile_programs_and_more() -> None:
    assert len(HOSTILE) >= 50


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs_are_refused_or_bounded(name: str) -> None:
    start = time.process_time()
    try:
        prepared = prepare(**body_of(HOSTILE[name]))
    except (InvalidFieldsError, ValidationError) as error:
        assert len(str(error)) < 2_000
        assert name not in BOUNDED
    else:
        assert name in BOUNDED
        assert prepared.estimate["flops"] <= CAPS["flops"].most
    assert time.process_time() - start < 5
