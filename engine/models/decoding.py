"""Decoders: models read one token after the other, remembering what they have seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from math import inf, prod
from typing import Literal, Protocol
from weakref import WeakKeyDictionary, finalize

from engine.core.dtype import float32, int64
from engine.devices.array import Array
from engine.models.build import LanguageModel
from engine.nn.attention import KeysAndValues, Place, rotation
from engine.nn.layers import Linear, linear
from engine.nn.module import Module
from engine.nn.transformer import GPT
from engine.tensor import Tensor, arange, no_grad, where
from engine.tensor.cell import from_host
from engine.tracing import compile

Window = Literal["half", "exact"]

_MOST_IDLE = 4  # steps of one model


class Decoder(Protocol):
    """Turns a growing text into the logits of what comes next."""

    def read(self, tokens: Sequence[int]) -> Tensor:
        """Logits (vocab_size,) after at least one more token."""
        ...


class WindowDecoder:
    """Computes the last ``seq_len`` tokens anew for each token: for models without a memory of their own."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model.eval()
        self._tokens: list[int] = []

    def read(self, tokens: Sequence[int]) -> Tensor:
        self._tokens = [*self._tokens, *tokens][-self._model.config.seq_len :]
        return last_logits(self._model, self._tokens)


def last_logits(model: LanguageModel, tokens: Sequence[int]) -> Tensor:
    """Logits (vocab_size,) of what follows ``tokens``, computed from all of them."""
    with no_grad():
        return model(Tensor([list(tokens)], int64))[0, -1]


class GPTDecoder:
    """A GPT with remembered keys and values: each token costs one position.

    Learned positions end at ``seq_len``. From there on, window "half" reads the last half of the tokens again
    from position 0, and "exact" computes the last ``seq_len`` tokens for each new one. With rotary positions
    the oldest position is replaced instead, without end.
    """

    def __init__(self, model: GPT, window: Window) -> None:
        self._slides = model.positions is None
        self._room = model.config.seq_len
        self._kept = self._room // 2 if window == "half" else self._room - 1
        """Tokens that are read again, and at once, when the room ends."""
        self._tokens: list[int] = []
        self._step = _borrowed(model, self)

    def read(self, tokens: Sequence[int]) -> Tensor:
        """Logits (vocab_size,) after at least one more token. Raises IndexError for one that is none."""
        rest = list(tokens)
        while True:
            if len(self._tokens) == self._room and not self._slides:
                rest, self._tokens = self._tokens[self._room - self._kept :] + rest, []
            start = len(self._tokens)
            count = self._kept + 1
            if not count <= min(len(rest), self._room - start):
                count = 1
            self._tokens += rest[:count]
            logits = self._step.run(rest[:count], start)
            rest = rest[count:]
            if not rest:
                return logits


class _Streamed(Module):
    """A Linear for few rows: its weights lie (in, out), so that a pass over them goes through memory once."""

    def __init__(self, linear: Linear) -> None:
        self._linear = linear
        self._seen = linear.weight._value
        self._turned = linear.weight.detach().T

    def refresh(self) -> None:
        """Takes over what the Linear holds now."""
        weight = self._linear.weight
        if weight._value is not self._seen:  # an array that somebody holds is never written to
            self._seen = weight._value
            self._turned.assign(weight.detach().T)

    def forward(self, x: Tensor) -> Tensor:
        """(…, in_features) to (…, out_features), with the bits of the Linear."""
        return linear(x, self._turned.T, self._linear.bias)


class _GPTStep:
    """The computation of one more position, or of many: plans that hold the memory as their state.

    It outlives the decoder that uses it, and holds the model's parameters, but not the model.
    """

    def __init__(self, model: GPT) -> None:
        self._streamed = {
            id(own): _Streamed(own) for _, own in model.named_modules() if isinstance(own, Linear)
        }
        shared = {id(own): own for own in model.parameters()}
        self._model = deepcopy(model, {**shared, **self._streamed}).eval()
        self._config = config = model.config
        self._room = config.seq_len
        self._size = config.embed_dim // config.num_heads
        shape = (1, config.num_heads, self._size, self._room)
        self._nothing = Tensor([0.0] * prod(shape)).reshape(shape)
        self._memories = [
            KeysAndValues(self._nothing.detach(), self._nothing.detach()) for _ in range(config.num_layers)
        ]
        self._numbers: list[int] = []
        self._forward: dict[int, Callable[[], Tensor]] = {}

    def renew(self) -> None:
        """For the parameters as they are now, having seen nothing: what the masks hide is finite again."""
        for own in self._streamed.values():
            own.refresh()
        for memory in self._memories:
            memory.keys.assign(self._nothing)
            memory.values.assign(self._nothing)

    def run(self, tokens: Sequence[int], position: int) -> Tensor:
        """Logits (vocab_size,) after ``tokens`` at ``position`` and behind it, modulo ``room``."""
        for token in tokens:
            if not 0 <= token < self._config.vocab_size:
                raise IndexError(f"token {token} is outside the vocabulary of {self._config.vocab_size}")
        self._numbers = [position, *tokens]
        forward = self._forward.get(len(tokens))
        if forward is None:
            forward = self._forward[len(tokens)] = compile(partial(self._logits, len(tokens)))
        return forward()

    def _given(self) -> list[Array]:
        return [Array.from_list(self._numbers, (len(self._numbers),), int64)]

    def _logits(self, count: int) -> Tensor:
        (numbers,) = from_host(self._given, [((1 + count,), int64)])
        start, tokens = numbers[:1], numbers[1:]
        model, room = self._model, self._room
        with no_grad():
            positions, slots = start + arange(count), arange(room)
            x = model.embedding(tokens.unsqueeze(0))
            turn = None
            if model.positions is None:
                turn = rotation(positions, self._size, float32)
            else:
                x = x + model.positions[positions]
            order = (slots - start) % room  # which of the tokens goes into each slot
            bias = where(slots <= positions.unsqueeze(1), 0.0, -inf)
            place = Place(order < count, order.clamp(0, count - 1) if count > 1 else None, bias, turn)
            return model.step(x, self._memories, place).flatten()


_idle: WeakKeyDictionary[GPT, list[_GPTStep]] = WeakKeyDictionary()
"""Steps that no decoder uses: tracing one takes as long as many tokens."""


def _borrowed(model: GPT, decoder: GPTDecoder) -> _GPTStep:
    """A step that has seen nothing, for as long as ``decoder`` lives."""
    idle = _idle.setdefault(model, [])
    try:
        step = idle.pop()
        step.renew()
    except IndexError:
        step = _GPTStep(model)
    finalize(decoder, _give_back, idle, step).atexit = False
    return step


def _give_back(idle: list[_GPTStep], step: _GPTStep) -> None:
    if len(idle) < _MOST_IDLE:
        idle.append(step)


def decoder_of(model: LanguageModel, window: Window) -> Decoder:
    """A decoder that has read nothing yet."""
    return GPTDecoder(model, window) if isinstance(model, GPT) else WindowDecoder(model)
