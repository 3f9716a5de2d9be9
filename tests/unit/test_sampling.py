"""Sampling: remembered keys give the bits of the full model; choices; stops; windows."""

from __future__ import annotations

import gc
import math
from collections import Counter
from typing import Any
from weakref import ref

import numpy as np
import pytest

from engine import Generator, Tensor, nn, no_grad
from engine.data.tokenizer import CharTokenizer
from engine.devices.device import use_device
from engine.devices.reference import ReferenceDevice
from engine.models import decoding
from engine.models.build import build_model, save_model
from engine.models.config import BigramConfig, GPTConfig, MLPConfig
from engine.models.decoding import GPTDecoder, Window, decoder_of, last_logits
from engine.models.sampling import Choice, Token, generate, load_model
from engine.serialize import FormatError, load, save
from engine.tracing import compile

LETTERS = "\nabcdefghij"
TOKENIZER = CharTokenizer(LETTERS)


def gpt(num_layers: int = 2, **options: Any) -> nn.GPT:
    config = GPTConfig(len(LETTERS), 16, 2, 24, num_layers, 8, **options)
    return nn.GPT.from_config(config, Generator(1)).eval()


OPTIONS: list[dict[str, Any]] = [
    {},
    {"positions": "rotary"},
    {"norm": "rmsnorm", "feed_forward": "swiglu", "tied": True},
]


def text_of(tokens: Any) -> str:
    return "".join(token.text for token in tokens)


@pytest.mark.parametrize("options", OPTIONS)
def test_each_position_has_the_bits_of_the_full_model(options: dict[str, Any]) -> None:
    model = gpt(**options)
    decoder = GPTDecoder(model, "half")
    ids = [3, 1, 4, 1, 5, 9, 2, 6]
    for length, token in enumerate(ids, 1):
        logits = decoder.read([token])
        with no_grad():
            assert logits.tolist() == model([ids[:length]])[0, -1].tolist()


def test_devices_without_bound_calls_decode_too() -> None:
    model = gpt()
    expected = [GPTDecoder(model, "half").read([3]).tolist()]
    with use_device(ReferenceDevice()):
        np.testing.assert_allclose(
            [GPTDecoder(model, "half").read([3]).tolist()], expected, rtol=1e-4, atol=1e-6
        )


def test_decoders_share_what_was_traced_and_nothing_that_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    model, made = gpt(), []
    monkeypatch.setattr(decoding, "compile", lambda function: made.append(function) or compile(function))
    fresh = GPTDecoder(model, "half").read([3]).tolist()
    first, second = GPTDecoder(model, "half"), GPTDecoder(model, "half")
    for decoder in (first, second):
        assert decoder.read([3]).tolist() == fresh
    count = len(made)
    first.read([5])
    del first, second, decoder
    assert GPTDecoder(model, "half").read([3]).tolist() == fresh
    assert len(made) == count


def test_what_was_traced_does_not_keep_the_model() -> None:
    model = gpt()
    GPTDecoder(model, "half").read([3])
    gone = ref(model)
    del model
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("window", "count"), [("half", n) for n in (1, 4, 5, 8, 12)] + [("exact", 8)])
def test_a_prompt_read_at_once_has_the_bits_of_one_token_after_the_other(
    window: Window, count: int, options: dict[str, Any]
) -> None:
    model, ids = gpt(**options), [i * 7 % 11 for i in range(count)]
    at_once, singly = GPTDecoder(model, window), GPTDecoder(model, window)
    expected = [singly.read([token]) for token in ids][-1]
    assert at_once.read(ids).tolist() == expected.tolist()
    assert at_once.read([2]).tolist() == singly.read([2]).tolist()


def test_window_half_reads_the_last_half_again() -> None:
    model, ids = gpt(), [i % 11 for i in range(20)]
    decoder = GPTDecoder(model, "half")
    seen = [decoder.read([token]).tolist() for token in ids]
    for end, start in ((7, 0), (8, 4), (11, 4), (12, 8), (19, 12)):
        assert seen[end] == last_logits(model, ids[start : end + 1]).tolist()


def test_window_exact_sees_the_whole_context_each_time() -> None:
    model, ids = gpt(), [i * 7 % 11 for i in range(14)]
    decoder = GPTDecoder(model, "exact")
    for end, token in enumerate(ids):
        logits = decoder.read([token])
        assert logits.tolist() == last_logits(model, ids[max(0, end - 7) : end + 1]).tolist()


def test_rotary_positions_slide_without_end() -> None:
    model, ids = gpt(positions="rotary", num_layers=1), [i * 7 % 11 for i in range(30)]
    decoder = GPTDecoder(model, "half")
    logits = [decoder.read([token]) for token in ids][-1]
    np.testing.assert_allclose(
        np.asarray(logits), np.asarray(last_logits(model, ids[-8:])), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("config", [BigramConfig(11, 4), MLPConfig(11, 3, 5, 4)])
def test_models_without_memory_decode_too(config: BigramConfig | MLPConfig) -> None:
    model = build_model(config, Generator(0))
    decoder = decoder_of(model, "half")
    ids = [1, 2, 3, 4, 5, 6]
    logits = [decoder.read([token]).tolist() for token in ids][-1]
    assert logits == last_logits(model, ids[-4:]).tolist()


def test_the_same_seed_gives_the_same_text() -> None:
    model = gpt()
    texts = {seed: text_of(generate(model, TOKENIZER, "ab", max_tokens=20, seed=seed)) for seed in (0, 1)}
    assert texts[0] != texts[1]
    assert len(texts[0]) == 20
    assert text_of(generate(model, TOKENIZER, "ab", max_tokens=20, seed=0)) == texts[0]
    assert text_of(generate(model, TOKENIZER, "ab", max_tokens=5, seed=0)) == texts[0][:5]


def test_log_probabilities_are_the_models_own() -> None:
    model = gpt()
    ids = TOKENIZER.encode("ab").tolist()
    for token in generate(model, TOKENIZER, "ab", max_tokens=5, temperature=0.3, top_k=2):
        with no_grad():
            logprobs = model([ids])[0, -1].log_softmax().tolist()
        assert token.logprob == logprobs[token.id]
        ids.append(token.id)


def test_temperature_zero_takes_the_most_likely() -> None:
    model = gpt()
    ids = TOKENIZER.encode("ab").tolist()
    for token in generate(model, TOKENIZER, "ab", max_tokens=5, temperature=0.0, seed=9):
        assert token.id == int(last_logits(model, ids).argmax().item())
        ids.append(token.id)


def frequencies(choice: Choice, weights: list[float]) -> dict[int, float]:
    count = 20_000
    drawn = Counter(choice.draw(weights, u) for u in Generator(2).uniform(count).tolist())
    return {token: number / count for token, number in drawn.items()}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (Choice(), [0.5, 0.1, 0.3, 0.1]),
        (Choice(top_k=2), [0.625, 0, 0.375, 0]),
        (Choice(top_k=3), [0.5 / 0.9, 0.1 / 0.9, 0.3 / 0.9, 0]),
        (Choice(top_p=0.5), [1, 0, 0, 0]),
        (Choice(top_p=0.51), [0.625, 0, 0.375, 0]),
        (Choice(top_k=3, top_p=0.95), [0.5 / 0.9, 0.1 / 0.9, 0.3 / 0.9, 0]),
        (Choice(top_k=1), [1, 0, 0, 0]),
    ],
)
def test_what_is_kept_is_drawn_by_its_weight(choice: Choice, expected: list[float]) -> None:
    found = frequencies(choice, [0.5, 0.1, 0.3, 0.1])
    for token, share in enumerate(expected):
        assert found.get(token, 0.0) == pytest.approx(share, abs=0.015)


def test_tokens_of_weight_zero_are_never_drawn() -> None:
    weights = [0.0, 1.0, 0.0, 1.0, 0.0]
    assert {Choice().draw(weights, u) for u in (0.0, 0.25, 0.5, 0.75, 1.0 - 2**-24)} == {1, 3}


def test_damaged_models_are_an_error() -> None:
    model = gpt()
    with no_grad():
        model.head.bias *= math.nan  # type: ignore[operator]
    with pytest.raises(ValueError, match="gives NaN"):
        list(generate(model, TOKENIZER, "ab", max_tokens=1))


def tokens_of(text: str) -> list[Token]:
    return [Token(character, 0, 0.0) for character in text]


@pytest.mark.parametrize(
    ("text", "stops", "expected"),
    [
        ("abcabd", ["abd"], "abc"),
        ("aaab", ["ab"], "aa"),
        ("abcdef", ["xyz"], "abcdef"),
        ("abcdef", ["de", "c"], "ab"),
        ("abc", ["abcd"], "abc"),
        ("abab", ["abab"], ""),
        ("xabcd", ["bcd", "abcd"], "x"),
        ("abc", [], "abc"),
    ],
)
def test_text_ends_before_the_first_stop(text: str, stops: list[str], expected: str) -> None:
    from engine.models.sampling import _until

    assert text_of(_until(iter(tokens_of(text)), stops)) == expected


def test_stops_end_generation() -> None:
    model = gpt()
    whole = text_of(generate(model, TOKENIZER, "ab", max_tokens=30, seed=3))
    stop = whole[10:12]
    cut = text_of(generate(model, TOKENIZER, "ab", max_tokens=30, seed=3, stop=[stop]))
    assert cut == whole[: whole.index(stop)]
    assert text_of(generate(model, TOKENIZER, "ab", max_tokens=30, seed=3, stop=stop)) == cut


def test_prompts_may_be_empty_or_longer_than_the_context() -> None:
    model = gpt()
    assert text_of(generate(model, TOKENIZER, "", max_tokens=4)) == text_of(
        generate(model, TOKENIZER, "\n", max_tokens=4)
    )
    assert len(text_of(generate(model, TOKENIZER, "abcdefghij" * 3, max_tokens=4))) == 4
    with pytest.raises(ValueError, match="character 'z' at offset 1"):
        generate(model, TOKENIZER, "az", max_tokens=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"top_k": 0}, "top_k is 0"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"max_tokens": -1}, "max_tokens is -1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generate(gpt(), TOKENIZER, "a", **{"max_tokens": 1, **options})


def test_a_model_file_is_complete_and_checked() -> None:
    model = gpt(tied=True)
    raw = save_model(model, TOKENIZER)
    again, tokenizer = load_model(raw)
    assert tokenizer == TOKENIZER
    assert again.config == model.config
    assert not again.training
    assert save_model(again, tokenizer) == raw


def test_files_that_hold_no_model_are_refused() -> None:
    tensors, metadata = load(save_model(gpt(), TOKENIZER))
    name = "embedding.weight"
    value = tensors[name]
    cases = [
        (tensors, {}, "no model"),
        (tensors, {**metadata, "config": "{"}, "no model"),
        (tensors, {**metadata, "config": "[]"}, "no model"),
        (tensors, {**metadata, "tokenizer": '{"kind": "char", "characters": "ab"}'}, "must be as many"),
        ({k: v for k, v in tensors.items() if k != name}, metadata, "parameters"),
        (
            {**{k: v for k, v in tensors.items() if k != name}, "other": value},
            metadata,
            "not those of its model",
        ),
        ({**tensors, name: value.reshape(-1)}, metadata, "not those of its model"),
        (
            tensors,
            {**metadata, "config": metadata["config"].replace("16", str(2**20))},
            "parameters, its model",
        ),
    ]
    for changed, described, message in cases:
        with pytest.raises(FormatError, match=message):
            load_model(save(changed, described))


def test_a_uniform_number_is_below_one() -> None:
    numbers = Generator(0).uniform(100_000)
    assert 0.0 <= numbers.min().item() < 1e-4
    assert 1.0 - 1e-4 < numbers.max().item() < 1.0
    assert isinstance(numbers, Tensor)
