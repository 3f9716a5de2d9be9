"""Decoders: models read one token after the other, remembering what they have seen."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Literal, Protocol

from engine.core.dtype import bool_, float32, int64
from engine.devices.array import Array
from engine.devices.device import current_device
from engine.devices.replay import Replay
from engine.models.build import LanguageModel
from engine.nn.attention import KeysAndValues, Place, rotation
from engine.nn.transformer import GPT
from engine.tensor import Tensor, no_grad
from engine.tensor.cell import record_all

Window = Literal["half", "exact"]
_MASKED = float32.encode(-inf)


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
    with no_grad():
        return model(Tensor([list(tokens)], int64))[0, -1]


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

    def feed(self, token: int) -> Tensor:
        if self._model.positions is not None and len(self._tokens) == self._room:
            if self._window == "exact":
                self._tokens = [*self._tokens[1:], token]
                return last_logits(self._model, self._tokens)
            again, self._tokens = self._tokens[self._room - self._room // 2 :], []
            for old in again:
                self.feed(old)
        self._tokens.append(token)
        return Tensor.of_array(self._step.run(token, len(self._tokens) - 1)).flatten()


class _GPTStep:
    """The computation of one position, recorded once and replayed with the memory in its buffers."""

    def __init__(self, model: GPT) -> None:
        config = model.config
        self._room = config.seq_len
        self._size = config.embed_dim // config.num_heads
        self._vocab = config.vocab_size
        self._vectors = _rows(model.embedding.weight)
        self._positions = None if model.positions is None else _rows(model.positions)
        shape = (1, config.num_heads, self._size, self._room)
        vectors = [Tensor.zeros(1, 1, config.embed_dim) for _ in (0, *(self._positions or [])[:1])]
        place = Place(
            Tensor([i == 0 for i in range(self._room)], bool_),
            Tensor([0.0] + [-inf] * (self._room - 1), float32),
            rotation(0, 1, self._size, float32) if self._positions is None else None,
        )
        memories = [KeysAndValues(Tensor.zeros(shape), Tensor.zeros(shape)) for _ in range(config.num_layers)]
        given = [*vectors, place.slot, place.bias, *(place.turn or ())]
        old = [x.node for layer in memories for x in (layer.keys, layer.values)]
        leaves = [x.node for x in given]
        with record_all():
            logits = model.step(vectors[0] if len(vectors) == 1 else vectors[0] + vectors[1], memories, place)
        new = [x.node for layer in memories for x in (layer.keys, layer.values)]
        feedback = list(zip(new, old, strict=True))
        self._replay = Replay([logits.node], [*leaves, *old], current_device(), feedback)

    def run(self, token: int, position: int) -> Array:
        """Logits (1, 1, vocab_size) with ``token`` at ``position``, in place of that ``room`` before it."""
        if not 0 <= token < self._vocab:
            raise IndexError(f"token {token} is outside the vocabulary of {self._vocab}")
        vectors = [self._vectors[token]]
        if self._positions is not None:
            vectors.append(self._positions[position])
            turn = []
        else:
            turn = [x.tobytes() for x in rotation(position, 1, self._size, float32)]
        self._replay.run(
            *vectors, _slot(position % self._room, self._room), _bias(position + 1, self._room), *turn
        )
        logits: Array = self._replay.outputs[0]
        return logits


def _rows(table: Tensor) -> list[bytes]:
    """The elements of each row of a table."""
    raw = table.tobytes()
    size = len(raw) // table.shape[0]
    return [raw[i : i + size] for i in range(0, len(raw), size)]


def _slot(place: int, room: int) -> bytes:
    """bool (room,): true at ``place``."""
    return bytes(place) + b"\1" + bytes(room - place - 1)


def _bias(seen: int, room: int) -> bytes:
    """float32 (room,): 0 for the first ``seen``, -inf for the rest."""
    return bytes(4 * min(seen, room)) + _MASKED * max(room - seen, 0)


def decoder_of(model: LanguageModel, window: Window) -> Decoder:
    """A decoder that has read nothing yet."""
    return GPTDecoder(model, window) if isinstance(model, GPT) else WindowDecoder(model)


def read(decoder: Decoder, tokens: Sequence[int]) -> Tensor:
    """Feeds at least one token; the logits after the last."""
    for token in tokens[:-1]:
        decoder.feed(token)
    return decoder.feed(tokens[-1])
