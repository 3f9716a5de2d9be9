"""Random functions of Tensors: compiled, they give the bits of eager, in results, gradients and state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Generator, Tensor, no_grad, where
from engine.devices.cpu import CpuDevice
from engine.devices.device import current_device
from engine.tracing import compile

pytestmark = pytest.mark.skipif(not isinstance(current_device(), CpuDevice), reason="plans need a C compiler")

UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "neg": lambda x: -x,
    "abs": Tensor.abs,
    "tanh": Tensor.tanh,
    "exp": lambda x: x.clamp(-3.0, 3.0).exp(),
    "gelu": Tensor.gelu,
    "relu": Tensor.relu,
    "softmax": Tensor.softmax,
    "layernorm": Tensor.layernorm,
    "double": lambda x: x.T.reshape(x.shape[1], x.shape[0]).T,
    "flip": lambda x: x.flip(1),
    "spread mean": lambda x: x - x.mean(1, keepdims=True),
    "spread sum": lambda x: x + x.sum(0, keepdims=True),
    "cumsum": lambda x: x.cumsum(1),
    "halves": lambda x: where(x > 0.25, x, x * 0.5),
}
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y.abs() + 1.0),
    "max": Tensor.maximum,
    "products": lambda x, y: (x @ y.T) @ y,
}

Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from([*UNARY, *BINARY, "rebind", "draw"]),
        st.integers(0, 7),
        st.integers(0, 7),
    ),
    min_size=1,
    max_size=8,
)


class Program:
    """Applies the steps to a growing list of values; keeps a state and a weight."""

    def __init__(self, script: list[Step], columns: int) -> None:
        self.script = script
        self.generator = Generator(7)
        self.weight = Tensor(Generator(1).normal(columns), requires_grad=True)
        self.state = Tensor.zeros(columns)

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values = [x, x * self.weight]
        for name, i, j in self.script:
            one, other = values[i % len(values)], values[j % len(values)]
            if name == "rebind":
                with no_grad():
                    self.state.assign(self.state * 0.5 + one.detach().sum(0))
                values.append(one + self.state)
            elif name == "draw":
                values.append(one * self.generator.uniform(one.shape))
            else:
                values.append(UNARY[name](one) if name in UNARY else BINARY[name](one, other))
        loss = sum((value.sum() for value in values), Tensor(0.0))
        loss.backward()
        gradient, self.weight.grad = self.weight.grad, None
        assert gradient is not None
        return values[-1], gradient.detach()

    def bits(self, results: Any) -> list[Any]:
        return [self.state.tobytes(), self.generator.state, *[(x.shape, x.tobytes()) for x in results]]


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps, st.integers(1, 9), st.lists(st.sampled_from([0, 1, 2, 5, 33]), min_size=2, max_size=3))
def test_compiled_programs_have_the_bits_of_eager(script: list[Step], columns: int, rows: list[int]) -> None:
    eager, traced = Program(script, columns), Program(script, columns)
    compiled = compile(traced)
    for turn, count in enumerate(rows):
        x = Generator(turn).normal(count, columns)
        assert traced.bits(compiled(x)) == eager.bits(eager(x)), (script, count)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps, st.integers(1, 70), st.lists(st.sampled_from([0, 1, 2, 5, 33, 130]), min_size=2, max_size=4))
def test_many_compiled_programs(script: list[Step], columns: int, rows: list[int]) -> None:
    eager, traced = Program(script, columns), Program(script, columns)
    compiled = compile(traced)
    for turn, count in enumerate(rows):
        x = Generator(turn).normal(count, columns)
        assert traced.bits(compiled(x)) == eager.bits(eager(x)), (script, count)
