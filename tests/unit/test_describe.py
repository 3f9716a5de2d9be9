"""Descriptions of plans: what a reader is told, and that it is true."""

from __future__ import annotations

import json
import re

import pytest
from plan_training import gpt, training_step

from engine.compiler.plan import Plan
from engine.compiler.profile import machine_limits
from engine.core import build as b
from engine.core.dim import symbol
from engine.core.dtype import float32, int64
from engine.core.node import Node
from engine.devices.array import Array
from engine.devices.cpu import CpuDevice
from engine.devices.toolchain import find_toolchain

if find_toolchain() is None:
    pytest.skip("no C compiler here", allow_module_level=True)

CPU = CpuDevice(threads=2)

RELU = """\
plan at n = 1000: 1 step in 1 wave, 1 fused kernel, 15.6 KB moved, 3 k flops

wave 0: kernel_0 (each): 15.6 KB, 3 k flops, 1 chunk
    reads a, b, c
    %0 = add(a, b)  float32[1000]
    %1 = max(%0, 0.0)  float32[1000]
    %2 = mul(%1, c)  float32[1000]
    writes %2: 3.9 KB, a result

targets
    %2

memory
    arena 0 B
    results 3.9 KB
"""

SOFTMAX = """\
plan: 1 step in 1 wave, 1 fused kernel, 2 KB moved, 5.9 k flops

wave 0: kernel_0 (rows): 2 KB, 5.9 k flops, 1 chunk
    reads x
    %0 = reduce max(x)  float32[8]
    %1 = sub(x, %0)  float32[8, 32]
    %2 = exp(%1)  float32[8, 32]
    %3 = reduce sum(%2)  float32[8]
    %4 = div(%2, %3)  float32[8, 32]
    writes %4: 1 KB, a result
    writes scratch: 256 B at 64 of the arena, waves 0 to 0
"""


def relu_plan() -> Plan:
    x, y, z = (b.input((symbol("n"),), float32) for _ in range(3))
    target = b.mul(b.max(b.add(x, y), b.zeros_like(x)), z)
    return Plan([x, y, z], [target], CPU, names={"a": x, "b": y, "c": z})


def softmax_plan() -> Plan:
    x = b.input((8, 32), float32)
    e = b.exp(b.sub(x, b.expand(b.reduce(x, "max", (1,)), (1,), x.shape)))
    return Plan([x], [b.div(e, b.expand(b.sum(e, (1,)), (1,), x.shape))], CPU, names={"x": x})


def test_an_elementwise_chain_is_one_kernel_and_four_passes_over_memory() -> None:
    assert relu_plan().describe({"n": 1000}) == RELU


def test_softmax_is_one_kernel() -> None:
    assert softmax_plan().describe().startswith(SOFTMAX)


def test_what_is_not_fused_is_told_with_the_reason() -> None:
    x = b.input((8, 8), float32)
    plan = Plan([x], [b.exp(b.add(b.dot(x, x), b.transpose(b.exp(x), (1, 0))))], CPU, names={"x": x})
    assert "not fused" in plan.describe()


def test_every_step_and_every_arena_buffer_is_described() -> None:
    step = training_step(gpt(32, 1, 8), 2, 8)
    plan = Plan(step.inputs, [step.loss], CPU, states=step.states)
    binding, text = plan.bind({}), plan.describe()
    told = [
        (int(offset), int(first), int(last))
        for offset, first, last in re.findall(r"at (\d+) of the arena, waves (\d+) to (\d+)", text)
    ]
    held = [(block.offset, block.first, block.last) for block in binding.arena_blocks()]
    assert set(told) == set(held)
    assert len(re.findall(r"^(?:wave \d+|once): ", text, re.MULTILINE)) == len(plan.blueprint.steps)
    assert f"{len(step.states)} of {len(step.states)} in place" in text


def test_the_profile_times_every_step_that_runs() -> None:
    plan = relu_plan()
    profile = plan.profile(sizes={"n": 4096}, repeats=2)
    (timing,) = profile.timings
    assert timing.seconds > 0
    assert timing.bound == 4 * 4096 * 4 / machine_limits(CPU).bandwidth
    assert "kernel_0 (each)" in str(profile)


def test_trace_events_are_chromes() -> None:
    plan = softmax_plan()
    events = json.loads(plan.trace_events())["traceEvents"]
    assert [event["name"] for event in events] == ["kernel_0"]
    assert {"ph", "ts", "dur", "pid", "tid"} <= events[0].keys()
    assert events[0]["args"]["bytes"] == 2 * 8 * 32 * 4


def test_a_plan_is_verified_against_one_node_a_kernel() -> None:
    x, i = b.input((symbol("n"), 4), float32), b.input((3,), int64)
    plan = Plan([x, i], [b.exp(b.gather(x, (i,), "checked")), b.sum(x, (0,))], CPU)
    assert plan.verify(sizes={"n": 5})
    assert "bit for bit" in str(plan.verify(sizes={"n": 5}))


def test_a_wrong_plan_is_found_out() -> None:
    x = b.input((4,), float32)
    right, wrong = b.exp(x), b.add(b.exp(x), b.full((4,), float32, 1.0))
    plan = Plan([x], [wrong], CPU)
    plan.targets = (right,)
    verdict = plan.verify({x: Array.from_list([0.0, 1.0, 2.0, 3.0], (4,), float32)})
    assert not verdict
    assert "element 0 is 2.0 and should be 1.0" in str(verdict)


def test_pictures_hold_every_kernel_and_escape_names() -> None:
    x = b.input((4, 4), float32)
    y: Node = x
    for _ in range(3):
        y = b.dot(b.exp(y), x)
    plan = Plan([x], [y], CPU, names={"<x>": x})
    page, picture = plan._repr_html_(), plan._repr_svg_()
    assert "&lt;x&gt;" in page
    assert "<x>" not in page
    assert picture is not None
    assert picture.count("<title>") == sum(
        step.writes[0] not in plan.bind({}).output_nodes for step in plan.blueprint.steps
    )
    unbound = relu_plan()
    assert unbound._repr_svg_() is None
    assert "over n" in unbound._repr_html_()
