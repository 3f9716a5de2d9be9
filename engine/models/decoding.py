"""Decoders: models read one token after the other, remembering what they have seen."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Literal, Protocol

from engine.core.dtype import bool_, float32, int64
from engine.devices.array import Array
from engine.devices.device import current_device
from engine.devices.replay import Replay, write
from engine.models.build import LanguageModel
from engine.nn.attention import KeysAndValues, Place, rotation
from engine.nn.transformer import GPT
from engine.tensor import Tensor, no_grad
from engine.tensor.cell import record_all

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
        return self._step.run(token, len(self._tokens) - 1)


class _GPTStep:
    """The computation of one position, recorded once and replayed with the memory in its buffers."""

    def __init__(self, model: GPT) -> None:
        config = model.config
        self._model = model
        self._room = config.seq_len
        self._size = config.embed_dim // config.num_heads
        memory = (1, config.num_heads, self._room, self._size)
        with no_grad():
            vector = self._embed(0, 0)
            place = self._place(0)
            memories = [
                KeysAndValues(Tensor.zeros(memory), Tensor.zeros(memory)) for _ in range(config.num_layers)
            ]
        inputs = [vector, place.slot, place.bias, *(place.turn or ())]
        for layer in memories:
            inputs += [layer.keys, layer.values]
        for cell in inputs:
            cell._node = None  # a leaf of its own, also where it is a constant
        leaves = [cell.node for cell in inputs]
        with record_all():
            logits = model.step(vector, memories, place)
        outputs = [logits.node, *[x.node for layer in memories for x in (layer.keys, layer.values)]]
        self._replay = Replay(outputs, leaves, current_device())
        self._memory_at = len(inputs) - 2 * config.num_layers

    def run(self, token: int, position: int) -> Tensor:
        """Logits (vocab_size,) with ``token`` at ``position``, which replaces the one ``room`` before it."""
        replay = self._replay
        with no_grad():
            place = self._place(position)
            given = [self._embed(token, position), place.slot, place.bias, *(place.turn or ())]
        for target, source in zip(replay.inputs, given, strict=False):
            write(target, source._value)
        replay.run()
        for target, output in zip(replay.inputs[self._memory_at :], replay.outputs[1:], strict=True):
            write(target, output)
        logits = replay.outputs[0]
        return Tensor.of_array(Array.from_bytes(logits.tobytes(), (logits.shape[-1],), logits.dtype))

    def _embed(self, token: int, position: int) -> Tensor:
        return self._model.embed(Tensor([[token]], int64), position)

    def _place(self, position: int) -> Place:
        seen = min(position + 1, self._room)
        slot = [[i == position % self._room] for i in range(self._room)]
        bias = [0.0] * seen + [-inf] * (self._room - seen)
        turn = rotation(position, 1, self._size, float32) if self._model.positions is None else None
        return Place(Tensor(slot, bool_), Tensor(bias, float32), turn)


def decoder_of(model: LanguageModel, window: Window) -> Decoder:
    """A decoder that has read nothing yet."""
    return GPTDecoder(model, window) if isinstance(model, GPT) else WindowDecoder(model)


def read(decoder: Decoder, tokens: Sequence[int]) -> Tensor:
    """Feeds at least one token; the logits after the last."""
    for token in tokens[:-1]:
        decoder.feed(token)
    return decoder.feed(tokens[-1])
