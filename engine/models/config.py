"""What a model is, as plain data: its sizes, its parameter count and the work of one training step.

This module imports nothing of the engine but its errors, so that whoever only checks a specification need
not load it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Literal, TypeAlias

from engine.errors import EngineError

_LARGEST = 2**24


class ConfigError(EngineError, ValueError):
    """A field of a configuration breaks a rule: its name, its value, and the rule as "it …" goes on."""

    def __init__(self, field: str, value: object, rule: str) -> None:
        super().__init__(field, value, rule)
        self.field = field
        self.value = value
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.field} is {self.value!r}; it {self.rule}"


def _require_positive(config: object, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(name, value, "must be an integer of at least 1")
        if value > _LARGEST:
            raise ConfigError(name, value, f"must be at most {_LARGEST}")


def _require_choice(config: object, name: str, choices: tuple[str, ...]) -> None:
    value = getattr(config, name)
    if value not in choices:
        raise ConfigError(name, value, f"must be one of {', '.join(choices)}")


def _require_rate(config: object, name: str) -> None:
    value = getattr(config, name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < 1.0:
        raise ConfigError(name, value, "must be a number from 0 up to but not including 1")


@dataclass(frozen=True, slots=True)
class GPTConfig:
    """A pre-norm decoder-only transformer over ``vocab_size`` tokens and at most ``seq_len`` positions.

    ``positions``: learned vectors added to the embedding, or rotary (a rotation of queries and keys).
    ``tied``: the output layer uses the token embedding as its weight.
    """

    vocab_size: int
    embed_dim: int = 128
    num_heads: int = 4
    ff_dim: int = 256
    num_layers: int = 4
    seq_len: int = 32
    dropout: float = 0.0
    tied: bool = False
    positions: Literal["learned", "rotary"] = "learned"
    norm: Literal["layernorm", "rmsnorm"] = "layernorm"
    feed_forward: Literal["gelu", "swiglu"] = "gelu"

    def __post_init__(self) -> None:
        _require_positive(self, "vocab_size", "embed_dim", "num_heads", "ff_dim", "num_layers", "seq_len")
        _require_rate(self, "dropout")
        _require_choice(self, "positions", ("learned", "rotary"))
        _require_choice(self, "norm", ("layernorm", "rmsnorm"))
        _require_choice(self, "feed_forward", ("gelu", "swiglu"))
        if self.embed_dim % self.num_heads:
            rule = f"must be a multiple of num_heads ({self.num_heads})"
            raise ConfigError("embed_dim", self.embed_dim, rule)
        if self.positions == "rotary" and self.embed_dim // self.num_heads % 2:
            rule = f"must be num_heads ({self.num_heads}) times an even number, for rotary positions"
            raise ConfigError("embed_dim", self.embed_dim, rule)

    @property
    def name(self) -> str:
        return "gpt"

    @property
    def _matrix_elements(self) -> int:
        """Weights that multiply every position: projections, feed-forward and output layer."""
        width, hidden = self.embed_dim, self.ff_dim
        matrices = 3 if self.feed_forward == "swiglu" else 2
        block = 4 * width * width + matrices * width * hidden
        return self.num_layers * block + self.vocab_size * width

    def parameter_count(self) -> int:
        width, hidden = self.embed_dim, self.ff_dim
        norm = 2 * width if self.norm == "layernorm" else width
        hidden_biases = 2 * hidden if self.feed_forward == "swiglu" else hidden
        vectors = self.num_layers * (2 * norm + 4 * width + hidden_biases + width) + norm + self.vocab_size
        embedding = 0 if self.tied else self.vocab_size * width
        positions = self.seq_len * width if self.positions == "learned" else 0
        return self._matrix_elements + vectors + embedding + positions

    def step_flops(self, batch: int) -> int:
        """Floating-point operations of one training step: the backward pass costs twice the forward one."""
        rows = batch * self.seq_len
        attention = 4 * rows * self.seq_len * self.embed_dim * self.num_layers
        return 3 * (2 * self._matrix_elements * rows + attention)


@dataclass(frozen=True, slots=True)
class BigramConfig:
    """A table of logits of the next token, one row for each token. ``seq_len`` is the training window."""

    vocab_size: int
    seq_len: int = 32

    def __post_init__(self) -> None:
        _require_positive(self, "vocab_size", "seq_len")

    @property
    def name(self) -> str:
        return "bigram"

    def parameter_count(self) -> int:
        return self.vocab_size * self.vocab_size

    def step_flops(self, batch: int) -> int:
        return 12 * batch * self.seq_len * self.vocab_size


@dataclass(frozen=True, slots=True)
class MLPConfig:
    """Embeddings of the last ``seq_len`` tokens, joined, one tanh layer, and an output layer."""

    vocab_size: int
    embed_dim: int = 10
    hidden_dim: int = 100
    seq_len: int = 3

    def __post_init__(self) -> None:
        _require_positive(self, "vocab_size", "embed_dim", "hidden_dim", "seq_len")

    @property
    def name(self) -> str:
        return "mlp"

    def parameter_count(self) -> int:
        joined = self.seq_len * self.embed_dim
        embedding = self.vocab_size * self.embed_dim
        return embedding + (joined + 1) * self.hidden_dim + (self.hidden_dim + 1) * self.vocab_size

    def step_flops(self, batch: int) -> int:
        joined = self.seq_len * self.embed_dim
        return 6 * batch * self.hidden_dim * (joined + self.vocab_size)


ModelConfig: TypeAlias = GPTConfig | BigramConfig | MLPConfig
CONFIGS: dict[str, type[GPTConfig] | type[BigramConfig] | type[MLPConfig]] = {
    "gpt": GPTConfig,
    "bigram": BigramConfig,
    "mlp": MLPConfig,
}


def read_config(spec: Mapping[str, Any], vocab_size: int | None = None) -> ModelConfig:
    """The configuration that ``{"name": "gpt", "embed_dim": 128, …}`` describes.

    ``vocab_size`` fills that field where the mapping lacks it. ConfigError, a ValueError, names field, value
    and rule.
    """
    values = dict(spec)
    name = values.pop("name", None)
    if name not in CONFIGS:
        raise ConfigError("model name", name, f"must be one of {', '.join(CONFIGS)}")
    known = {field.name: field for field in fields(CONFIGS[name])}
    for key, value in values.items():
        if key not in known:
            raise ConfigError(key, value, f"is not a field of model {name}, which has {', '.join(known)}")
    if vocab_size is not None:
        values.setdefault("vocab_size", vocab_size)
    missing = [key for key, field in known.items() if field.default is MISSING and key not in values]
    if missing:
        raise ConfigError(missing[0], None, f"must be given for model {name}")
    return CONFIGS[name](**values)


def describe_config(config: ModelConfig) -> dict[str, Any]:
    """The mapping that ``read_config`` turns back into ``config``."""
    return {"name": config.name, **asdict(config)}
