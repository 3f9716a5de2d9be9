"""Decoders: models read one token after the other, remembering what they have seen."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Literal, Protocol

from engine.core.dtype import float32, int64
from engine.devices.array import Array
from engine.models.build import LanguageModel
from engine.nn.attention import KeysAndValues, Place, rotation
from engine.nn.transformer import GPT
from engine.tensor import Tensor, arange, no_grad, where
from engine.tensor.cell import from_host
from engine.tracing import compile

Window = Literal["half", "exact"]


class Decoder(Protocol):
    """Turns a growing text into the logits of what comes next."""

    def feed(self, token: int) -> Tensor:
        """Logits (vocab_size,) after one more token."""
        ...


class WindowDecoder:
    """Computes the last ``seq_len`` tokens anew for each token: for models without a memory of their own."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._tokens: list[int] = []

    def feed(self, token: int) -> Tensor:
        self._tokens = [*self._tokens, token][-self._model.config.seq_len :]
        return last_logits(self._model, self._tokens)


def last_logits(model: LanguageModel, tokens: Sequence[int]) -> Tensor:
    """Logits (vocab_size,) of what follows ``tokens``, computed from all of them."""
    return _last_of(model, Tensor([list(tokens)], int64))


def _last_of(model: LanguageModel, tokens: Tensor) -> Tensor:
    with no_grad():
        return model(tokens)[0, -1]


class GPTDecoder:
    """A GPT with remembered keys and values: each token costs one position.

    Learned positions end at ``seq_len``. From there on, window "half" reads the last half of the tokens again
    from position 0, and "exact" computes the last ``seq_len`` tokens for each new one. With rotary positions
    the oldest position is replaced instead, without end.
    """

    def __init__(self, model: GPT, window: Window) -> None:
        self._model = model
        self._window = window
        self._room = model.config.seq_len
        self._tokens: list[int] = []
        self._step = _GPTStep(model)
        self._whole = compile(lambda tokens: _last_of(model, tokens))

    def feed(self, token: int) -> Tensor:
        if self._model.positions is not None and len(self._tokens) == self._room:
            if self._window == "exact":
                self._tokens = [*self._tokens[1:], token]
                return self._whole(Tensor([self._tokens], int64))
            again, self._tokens = self._tokens[self._room - self._room // 2 :], []
            for old in again:
                self.feed(old)
        self._tokens.append(token)
        return self._step.run(token, len(self._tokens) - 1)


class _GPTStep:
    """The computation of one position: a plan that holds the memory as its state."""

    def __init__(self, model: GPT) -> None:
        config = model.config
        self._model = model
        self._room = config.seq_len
        self._size = config.embed_dim // config.num_heads
        shape = (1, config.num_heads, self._size, self._room)
        self._memories = [
            KeysAndValues(Tensor.zeros(shape), Tensor.zeros(shape)) for _ in range(config.num_layers)
        ]
        self._token = self._position = 0
        self._forward = compile(self._logits)

    def run(self, token: int, position: int) -> Tensor:
        """Logits (vocab_size,) with ``token`` at ``position``, in place of that ``room`` before it."""
        if not 0 <= token < self._model.config.vocab_size:
            raise IndexError(f"token {token} is outside the vocabulary of {self._model.config.vocab_size}")
        self._token, self._position = token, position
        return self._forward()

    def _given(self) -> list[Array]:
        return [Array.from_list([value], (1,), int64) for value in (self._token, self._position)]

    def _logits(self) -> Tensor:
        token, position = from_host(self._given, [((1,), int64)] * 2)
        model, room = self._model, self._room
        with no_grad():
            x = model.embedding(token.unsqueeze(0))
            turn = None
            if model.positions is None:
                turn = rotation(position, self._size, float32)
            else:
                x = x + model.positions[position]
            slots = arange(room)
            place = Place(slots == position % room, where(slots <= position, 0.0, -inf), turn)
            return model.step(x, self._memories, place).flatten()


def decoder_of(model: LanguageModel, window: Window) -> Decoder:
    """A decoder that has read nothing yet."""
    return GPTDecoder(model, window) if isinstance(model, GPT) else WindowDecoder(model)


def read(decoder: Decoder, tokens: Sequence[int]) -> Tensor:
    """Feeds at least one token; the logits after the last."""
    for token in tokens[:-1]:
        decoder.feed(token)
    return decoder.feed(tokens[-1])
