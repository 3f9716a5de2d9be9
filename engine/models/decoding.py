"""Decoders: models read one token after the other, remembering what they have seen."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Literal, Protocol
from weakref import WeakKeyDictionary, finalize, ref

from engine.core.dtype import float32, int64
from engine.devices.array import Array
from engine.models.build import LanguageModel
from engine.nn.attention import KeysAndValues, Place, rotation
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


class _GPTStep:
    """The computation of one position: a plan that holds the memory as its state.

    It outlives the decoder that uses it, but not the model, which it does not hold.
    """

    def __init__(self, model: GPT) -> None:
        self._model = ref(model)
        self._config = config = model.config
        self._room = config.seq_len
        self._size = config.embed_dim // config.num_heads
        self._memories = [KeysAndValues(self._nothing(), self._nothing()) for _ in range(config.num_layers)]
        self._token = self._position = 0
        self._forward = compile(self._logits)
        self.whole = compile(self._last_logits)

    def _nothing(self) -> Tensor:
        return Tensor.zeros((1, self._config.num_heads, self._size, self._room))

    def forget(self) -> None:
        """Back to having seen nothing: what lies behind the masks is finite again."""
        for memory in self._memories:
            memory.keys.assign(self._nothing())
            memory.values.assign(self._nothing())

    def run(self, token: int, position: int) -> Tensor:
        """Logits (vocab_size,) with ``token`` at ``position``, in place of that ``room`` before it."""
        if not 0 <= token < self._config.vocab_size:
            raise IndexError(f"token {token} is outside the vocabulary of {self._config.vocab_size}")
        self._token, self._position = token, position
        return self._forward()

    def _given(self) -> list[Array]:
        return [Array.from_list([value], (1,), int64) for value in (self._token, self._position)]

    def _logits(self) -> Tensor:
        token, position = from_host(self._given, [((1,), int64)] * 2)
        model, room = self._living(), self._room
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
        return _last_of(self._living(), tokens)

    def _living(self) -> GPT:
        model = self._model()
        assert model is not None
        return model


_idle: WeakKeyDictionary[GPT, list[_GPTStep]] = WeakKeyDictionary()
"""Steps that no decoder uses: tracing one takes as long as many tokens."""


def _borrowed(model: GPT, decoder: GPTDecoder) -> _GPTStep:
    """A step that has seen nothing, for as long as ``decoder`` lives."""
    idle = _idle.setdefault(model, [])
    try:
        step = idle.pop()
        step.forget()
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
