"""The GPT: size, shapes, options, causality, and agreement with torch."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from engine import Generator, Tensor, nn, no_grad
from engine.errors import ShapeError
from engine.models.build import build_model
from engine.models.config import BigramConfig, ConfigError, GPTConfig, MLPConfig, describe_config, read_config

OPTIONS: list[dict[str, Any]] = [
    {},
    {"tied": True},
    {"positions": "rotary"},
    {"norm": "rmsnorm"},
    {"feed_forward": "swiglu"},
    {"tied": True, "positions": "rotary", "norm": "rmsnorm", "feed_forward": "swiglu", "dropout": 0.1},
]


def test_the_known_size() -> None:
    model = nn.GPT(vocab_size=65, embed_dim=128, num_heads=4, ff_dim=256, num_layers=4, seq_len=32)
    assert model.parameter_count() == 550_977
    assert model.positions is not None
    assert model.positions.numel() == 4_096
    assert sum(p.numel() for p in model.blocks[0].parameters()) == 132_480


@pytest.mark.parametrize("options", OPTIONS)
def test_every_option_counts_runs_and_learns(options: dict[str, Any]) -> None:
    config = GPTConfig(11, 8, 2, 12, 2, 6, **options)
    model = nn.GPT.from_config(config, Generator(0))
    assert model.parameter_count() == config.parameter_count()
    assert read_config(describe_config(config)) == config
    for length in (1, 3, 6):
        assert model(np.zeros((2, length), np.int64)).shape == (2, length, 11)
    nn.CrossEntropyLoss()(model([[1, 2, 3]]), [2, 3, 4]).backward()
    assert all(p.grad is not None for name, p in model.named_parameters() if name != "positions.unused")
    with pytest.raises(ShapeError, match="at most seq_len = 6"):
        model([[0] * 7])
    with pytest.raises(IndexError, match="out of range"):
        model([[11]])


@pytest.mark.parametrize("options", OPTIONS)
def test_later_tokens_change_nothing_before_them(options: dict[str, Any]) -> None:
    model = nn.GPT.from_config(GPTConfig(11, 8, 2, 12, 2, 6, **options), Generator(0)).eval()
    with no_grad():
        long, short = model([[1, 2, 3, 4, 5]]), model([[1, 2, 3]])
    assert long[:, :3].tolist() == short.tolist()


@pytest.mark.parametrize("config", [BigramConfig(7, 4), MLPConfig(7, 3, 5, 4)])
def test_small_models_count_and_run(config: BigramConfig | MLPConfig) -> None:
    model = build_model(config, Generator(0))
    assert model.parameter_count() == config.parameter_count()
    for length in (1, 4):
        assert model([[1] * length]).shape[-1] == 7
    assert (
        model([[1, 2, 3, 4]])[:, -1].tolist() == model([[2, 2, 3, 4]])[:, -1].tolist() or config.name == "mlp"
    )


@pytest.mark.parametrize(
    ("fields", "field", "value", "rule"),
    [
        ({"name": "rnn"}, "model name", "rnn", "must be one of gpt, bigram, mlp"),
        ({"name": "gpt", "width": 3}, "width", 3, "is not a field of model gpt, which has vocab_size, "),
        ({"name": "gpt", "embed_dim": 0}, "embed_dim", 0, "must be an integer of at least 1"),
        ({"name": "gpt", "embed_dim": True}, "embed_dim", True, "must be an integer of at least 1"),
        ({"name": "bigram", "seq_len": 10**12}, "seq_len", 10**12, "must be at most 16777216"),
        ({"name": "gpt", "num_heads": 3}, "embed_dim", 128, "must be a multiple of num_heads (3)"),
        ({"name": "gpt", "dropout": 1}, "dropout", 1, "must be a number from 0 up to but not including 1"),
        ({"name": "gpt", "norm": "batch"}, "norm", "batch", "must be one of layernorm, rmsnorm"),
        ({"name": "gpt", "positions": "rotary", "num_heads": 128}, "embed_dim", 128, "times an even number"),
    ],
)
def test_bad_configurations_name_field_value_and_rule(
    fields: dict[str, Any], field: str, value: object, rule: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(fields, vocab_size=65)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert rule in caught.value.rule
    assert str(caught.value) == f"{field} is {value!r}; it {caught.value.rule}"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_configuration_without_its_vocabulary_is_refused() -> None:
    with pytest.raises(ConfigError, match="vocab_size is None; it must be given for model gpt"):
        read_config({"name": "gpt"})


def test_logits_agree_with_torch() -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is the oracle")
    functional = torch.nn.functional
    model = nn.GPT(13, 12, 3, 20, 2, 8, generator=Generator(1))
    state = {name: torch.tensor(np.asarray(value)) for name, value in model.state_dict().items()}
    tokens = np.random.default_rng(0).integers(0, 13, (2, 7))

    def block(x: Any, name: str) -> Any:
        def linear(y: Any, layer: str) -> Any:
            return functional.linear(y, state[f"{name}.{layer}.weight"], state[f"{name}.{layer}.bias"])

        def norm(y: Any, layer: str) -> Any:
            return functional.layer_norm(
                y, (12,), state[f"{name}.{layer}.weight"], state[f"{name}.{layer}.bias"]
            )

        heads = linear(norm(x, "attention_norm"), "attention.qkv").view(2, 7, 3, 3, 4).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + linear(mixed.permute(0, 2, 1, 3).reshape(2, 7, 12), "attention.out")
        hidden = functional.gelu(linear(norm(x, "feed_forward_norm"), "feed_forward.up"), approximate="tanh")
        return x + linear(hidden, "feed_forward.down")

    x = state["embedding.weight"][tokens] + state["positions"][:7]
    for i in range(2):
        x = block(x, f"blocks.{i}")
    x = functional.layer_norm(x, (12,), state["norm.weight"], state["norm.bias"])
    expected = functional.linear(x, state["head.weight"], state["head.bias"])
    np.testing.assert_allclose(np.asarray(model(Tensor(tokens))), expected.numpy(), rtol=1e-4, atol=1e-5)
