"""Decoders: models read one token after the other, remembering what they have seen."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
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

    def feed(self, token: int) -> Tensor:
        """Logits (vocab_size,) after one more token."""
        ...


class WindowDecoder:
    """Computes the last ``seq_len`` tokens anew for each token: for models without a memory of their own."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model.eval()
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
        self._step = _borrowed(model, self)

    def feed(self, token: int) -> Tensor:
        if self._model.positions is not None and len(self._tokens) == self._room:
            if self._window == "exact":
                self._tokens = [*self._tokens[1:], token]
                return self._step.whole(Tensor([self._tokens], int64))
            again, self._tokens = self._tokens[self._room - self._room // 2 :], []
            for old in again:
                self.feed(old)
        self._tokens.append(token)
        return self._step.run(token, len(self._tokens) - 1)


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
    """The computation of one position: a plan that holds the memory as its state.

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
        self._token = self._position = 0
        self._forward = compile(self._logits)
        self.whole = compile(self._last_logits)

    def renew(self) -> None:
        """For the parameters as they are now, having seen nothing: what the masks hide is finite again."""
        for own in self._streamed.values():
            own.refresh()
        for memory in self._memories:
            memory.keys.assign(self._nothing)
            memory.values.assign(self._nothing)

    def run(self, token: int, position: int) -> Tensor:
        """Logits (vocab_size,) with ``token`` at ``position``, in place of that ``room`` before it."""
        if not 0 <= token < self._config.vocab_size:
            raise IndexError(f"token {token} is outside the vocabulary of {self._config.vocab_size}")
        self._token, self._position = token, position
        return self._forward()

    def _given(self) -> list[Array]:
        return [Array.from_list([self._token, self._position], (2,), int64)]

    def _logits(self) -> Tensor:
        (given,) = from_host(self._given, [((2,), int64)])
        token, position = given[:1], given[1:]
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

    def _last_logits(self, tokens: Tensor) -> Tensor:
        return _last_of(self._model, tokens)


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


def read(decoder: Decoder, tokens: Sequence[int]) -> Tensor:
    """Feeds at least one token; the logits after the last."""
    for token in tokens[:-1]:
        decoder.feed(token)
    return decoder.feed(tokens[-1])
