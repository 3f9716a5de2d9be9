"""Text from a model, one token at a time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from engine.data.tokenizer import CharTokenizer
from engine.models.build import LanguageModel
from engine.models.build import load_model as load_model
from engine.models.decoding import Decoder, Window, decoder_of
from engine.random import Generator
from engine.tensor import Tensor
from engine.tracing import compile

_DRAWN_AT_ONCE = 64
_COLDEST = 1e-3


@dataclass(frozen=True, slots=True)
class Token:
    """A generated token, its text, and the logarithm of the probability that the model itself gave it."""

    text: str
    id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class Choice:
    """How the next token is chosen from the model's probabilities.

    ``temperature`` divides the logits; below 0.001 the most likely token is taken. ``top_k`` keeps that many
    of the most likely tokens (None: all), ``top_p`` the fewest whose probabilities reach that sum. Of equally
    likely ones the one with the lower id comes first.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature <= 100.0:
            raise ValueError(f"temperature is {self.temperature}; it must be from 0 to 100")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k is {self.top_k}; it must be at least 1, or None to keep all tokens")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p is {self.top_p}; it must be above 0 and at most 1")

    @property
    def is_greedy(self) -> bool:
        return self.temperature < _COLDEST

    def draw(self, weights: Sequence[float], uniform: float) -> int:
        """The token at ``uniform`` in [0, 1) of the weights that are kept."""
        order: Sequence[int] = range(len(weights))
        if self.top_k is not None or self.top_p < 1.0:
            order = sorted(order, key=weights.__getitem__, reverse=True)[: self.top_k]
            weights = [weights[token] for token in order]
        sums = list(accumulate(weights))
        if self.top_p < 1.0:
            sums = sums[: bisect_left(sums, self.top_p * sums[-1]) + 1]
        return order[bisect_right(sums, uniform * sums[-1])]


@compile
def _weigh(logits: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities, and probabilities at the temperature 1 / ``scale``."""
    logprobs = logits.log_softmax()
    return logprobs, (logprobs * scale).softmax()


class _Chooser:
    """A choice made again and again."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._scale = Tensor(1.0 if choice.is_greedy else 1.0 / choice.temperature)

    def pick(self, logits: Tensor, uniform: float) -> tuple[int, float]:
        """A token and its log-probability, for ``uniform`` in [0, 1). ValueError where the logits are NaN."""
        logprobs, weights = (x.tolist() for x in _weigh(logits.detach(), self._scale))
        if not sum(weights) > 0.0:
            raise ValueError("the model gives NaN for probabilities: its weights are damaged or diverged")
        greedy = self._choice.is_greedy
        token = logprobs.index(max(logprobs)) if greedy else self._choice.draw(weights, uniform)
        return token, logprobs[token]


def generate(
    model: LanguageModel,
    tokenizer: CharTokenizer,
    prompt: str,
    *,
    max_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    seed: int = 0,
    stop: str | Sequence[str] = (),
    window: Window = "half",
) -> Iterator[Token]:
    """The tokens that follow ``prompt``, at most ``max_tokens``, ending before the first ``stop`` text.

    The same arguments give the same tokens. An empty prompt stands for a line break, or for the first
    character where the model knows none. Past the context ``window`` "half" reads the last half again and
    goes on from there; "exact" lets every token see the last ``seq_len``, and computes them all each time.
    Raises ValueError for a character that the model does not know.
    """
    if max_tokens < 0:
        raise ValueError(f"max_tokens is {max_tokens}; it must be at least 0")
    choice = Choice(temperature, top_k, top_p)
    stops = [stop] if isinstance(stop, str) else list(stop)
    start = prompt or ("\n" if "\n" in tokenizer.characters else tokenizer.characters[0])
    decoder = decoder_of(model, window)
    logits = decoder.read(tokenizer.encode(start)[-model.config.seq_len :])
    tokens = _tokens(decoder, logits, tokenizer, _Chooser(choice), Generator(seed))
    return _until(islice(tokens, max_tokens), [text for text in stops if text])


def _tokens(
    decoder: Decoder, logits: Tensor, tokenizer: CharTokenizer, chooser: _Chooser, generator: Generator
) -> Iterator[Token]:
    """Tokens without end."""
    while True:
        for uniform in generator.uniform(_DRAWN_AT_ONCE).tolist():
            token, logprob = chooser.pick(logits, uniform)
            yield Token(tokenizer.decode([token]), token, logprob)
            logits = decoder.read([token])


def _until(tokens: Iterator[Token], stops: Sequence[str]) -> Iterator[Token]:
    """``tokens`` up to the first of the ``stops``. Tokens that may be the beginning of one are held back."""
    if not stops:
        yield from tokens
        return
    held: list[Token] = []
    for token in tokens:
        held.append(token)
        text = "".join(item.text for item in held)
        if any(text.endswith(stop) for stop in stops):
            longest = max(len(stop) for stop in stops if text.endswith(stop))
            yield from held[: len(held) - longest]
            return
        waiting = max((_overlap(text, stop) for stop in stops), default=0)
        yield from held[: len(held) - waiting]
        held = held[len(held) - waiting :]
    yield from held


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of ``text`` begin ``stop``."""
    return next((n for n in range(min(len(stop), len(text)), 0, -1) if text.endswith(stop[:n])), 0)
