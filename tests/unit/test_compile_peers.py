"""The peers of compile jobs compute what the tensor language means."""

from __future__ import annotations

import importlib.util

import pytest

from engine.compiler.interpret import interpret
from engine.devices.cpu.device import CpuDevice
from engine.devices.device import use_device
from engine.expression.tensors import FUNCTIONS
from workers.compiling.peers import LIBRARIES, PeerError, doubles, open_peer
from workers.compiling.programs import programs, values_of

np = pytest.importorskip("numpy")

EXPRESSIONS = (
    "a + b * 2 - c / 3",
    "(abs(a) ** 2 + 0.5) % 2 // 1",
    "-a @ transpose(b)",
    "matmul(a, transpose(b, axes=(1, 0)))",
    "where((a < b) | (b >= c) & ~(a == c), a, b)",
    "where((a <= b) ^ (b > c), a != c, b != c)",
    "sign(a) + floor(b) + ceil(c) + rint(a)",
    "exp(a) + log(abs(b) + 1) + log1p(abs(a)) + expm1(b) + tanh(c)",
    "sin(a) + cos(b) + sqrt(abs(c)) + atan2(a, b)",
    "erf(a) + gelu_exact(b)",
    "relu(a) + sigmoid(b) + silu(c) + softplus(a) + logsigmoid(b) + gelu(c)",
    "maximum(a, 0.5) + minimum(b, c) + clip(a, -1, 1)",
    "where(isnan(a) | ~isfinite(b), 0.0, c)",
    "sum(a, axis=0) + mean(b, axis=(0,)) + max(c, axis=0) + min(a, axis=0, keepdims=True)",
    "prod(a, axis=1) + var(b, axis=1) + std(c, axis=1)",
    "any(a > 1, axis=0) & all(b < 9, axis=0)",
    "argmax(a, axis=1) + argmin(b, axis=1)",
    "cumsum(a, axis=1) + cumprod(b, axis=0)",
    "softmax(a) + log_softmax(b, axis=0)",
    "logsumexp(a) + logsumexp(b, axis=1)",
    "layer_norm(a, w, w) + rms_norm(b, w)",
    "tril(a @ transpose(b)) + triu(a @ transpose(c), diagonal=1)",
    "softmax(causal_mask(a @ transpose(b)))",
    "reshape(a, shape=(-1, 2)) * 2",
    "float64(a) + float32(int32(b)) + float32(int64(c)) + float32(bool(a))",
    "(int32(a * 8) << 1) + (int32(b * 8) >> 1)",
)
INPUTS = {name: {"shape": [6, 4], "dtype": "float32", "below": 2} for name in "abc"}
INPUTS["w"] = {"shape": [4], "dtype": "float32", "below": 2}


@pytest.fixture(scope="module")
def device() -> CpuDevice:
    return CpuDevice()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_peer_agrees(text: str, library: str, device: CpuDevice) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    used = {name: INPUTS[name] for name in INPUTS if name in text.replace("(", " ").replace(",", " ")}
    spec = {"preset": None, "graph": None, "gradients": False, "expression": text, "inputs": used}
    with use_device(device):
        (program,) = programs(spec)
        values = values_of(program, 1)
        assert program.expression is not None
        used_values = {name: values[name] for name in program.expression.names}
        try:
            peer = open_peer(library, program.expression, used_values, False, 1)
        except PeerError as error:
            assert str(error).startswith("has no")
            return
        (result,) = peer.run()

        fed = {node: values[name] for name, node in program.graph.inputs.items()}
        (ours,) = interpret(program.nodes, fed, device, {})
    assert np.allclose(doubles(np, ours), peer.to_doubles(result), rtol=1e-4, atol=1e-4, equal_nan=True)


def test_every_function_is_tried() -> None:
    text = " ".join(EXPRESSIONS)
    untried = [name for name in FUNCTIONS if name.isidentifier() and f"{name}(" not in text]
    assert untried == ["bfloat16", "uint32"]
