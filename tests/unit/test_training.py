"""Training: exact resume, evaluation, specifications."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine import no_grad
from engine.data.tokenizer import CharTokenizer
from engine.devices.cpu import CpuDevice
from engine.devices.device import use_device
from engine.models.sampling import load_model
from engine.training import OPTIMIZERS, SCHEDULES, Checkpoint, SpecError, Training

TEXT = "the quick brown fox jumps over the lazy dog. " * 12
GPT = {"name": "gpt", "embed_dim": 8, "num_heads": 2, "ff_dim": 12, "num_layers": 2, "seq_len": 6}


def spec(**changes: Any) -> dict[str, Any]:
    return {"model": GPT, "steps": 8, "batch": 3, "lr": 0.01, "seed": 5, "publish_as": "ignored", **changes}


def through_json(checkpoint: Checkpoint) -> Checkpoint:
    """As it comes back from storage."""
    return replace(checkpoint, state=json.loads(json.dumps(checkpoint.state)))


def finished(training: Training) -> Checkpoint:
    while training.step < training.spec.steps:
        training.run_step()
    return training.save()


VARIANTS: list[dict[str, Any]] = [
    {},
    {
        "model": {**GPT, "dropout": 0.3, "positions": "rotary", "tied": True},
        "schedule": "cosine",
        "warmup_steps": 3,
    },
    {"optimizer": "sgd", "momentum": 0.9, "clip_norm": 0.5, "schedule": "linear"},
    {"optimizer": "lion", "weight_decay": 0.1, "schedule": "step"},
    {"model": {"name": "mlp"}, "optimizer": "rmsprop"},
    {"model": {"name": "bigram"}, "optimizer": "adagrad"},
]


@pytest.mark.parametrize("changes", VARIANTS)
def test_resuming_at_any_step_gives_the_same_bits(changes: dict[str, Any]) -> None:
    whole = Training(spec(**changes), TEXT)
    saved = [whole.save()]
    for _ in range(8):
        whole.run_step()
        saved.append(whole.save())
    for checkpoint in saved:
        resumed = Training.restore(spec(**changes), TEXT, through_json(checkpoint))
        assert resumed.step == checkpoint.step
        assert finished(resumed) == saved[-1]


def test_looking_changes_nothing() -> None:
    plain, watched = Training(spec(), TEXT), Training(spec(), TEXT)
    while watched.step < 8:
        watched.run_step()
        watched.evaluate()
        watched.sample("the", 3)
    assert finished(plain) == watched.save()


def test_the_seed_decides() -> None:
    assert finished(Training(spec(), TEXT)) == finished(Training(spec(), TEXT))
    assert finished(Training(spec(), TEXT)).weights != finished(Training(spec(seed=6), TEXT)).weights


def test_the_number_of_threads_does_not_matter() -> None:
    big = {**GPT, "embed_dim": 64, "num_heads": 4, "ff_dim": 128, "seq_len": 16}
    results = []
    for threads in (1, 2, 3):
        with use_device(CpuDevice(threads=threads)):
            results.append(finished(Training(spec(model=big, steps=3, batch=16), TEXT)))
    CpuDevice()  # the pool has its usual size again
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_every_optimiser_learns(optimizer: str) -> None:
    rate = {"sgd": 0.5, "adagrad": 0.1, "lion": 0.01}.get(optimizer, 0.03)
    training = Training(spec(steps=60, batch=8, lr=rate, optimizer=optimizer), TEXT)
    before = training.evaluate()
    losses = [training.run_step()["loss"] for _ in range(60)]
    assert np.mean(losses[-5:]) < 0.8 * losses[0]
    assert training.evaluate() < 0.85 * before


def test_a_step_reports_loss_rate_and_norm() -> None:
    training = Training(spec(schedule="cosine", warmup_steps=2), TEXT)
    numbers = [training.run_step() for _ in range(8)]
    assert [set(each) for each in numbers] == [{"loss", "lr", "grad_norm"}] * 8
    assert numbers[0]["lr"] == 0.005
    assert numbers[2]["lr"] == 0.01
    assert numbers[7]["lr"] < 0.01
    assert all(each["grad_norm"] > 0.0 for each in numbers)


def test_evaluation_is_the_mean_over_fixed_held_out_windows() -> None:
    training = Training(spec(), TEXT)
    tokenizer = CharTokenizer.from_text(TEXT)
    ids = tokenizer.encode(TEXT)
    held = ids[len(ids) - int(len(ids) * 0.1) :]
    count = len(held) - 6
    losses = []
    with no_grad():
        for i in range(count):
            logits = np.asarray(training.model.eval()([held[i : i + 6].tolist()]), np.float64)[0]
            logprobs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
            losses.append(-logprobs[np.arange(6), held[i + 1 : i + 7]].mean())
    assert count < 100
    assert training.evaluate() == pytest.approx(np.mean(losses), rel=1e-5)


def test_a_checkpoint_is_a_model_that_stands_alone() -> None:
    training = Training(spec(), TEXT)
    training.run_step()
    model, tokenizer = load_model(training.save().weights)
    assert tokenizer == training.tokenizer
    with no_grad():
        assert model([[0, 1, 2]]).tolist() == training.model.eval()([[0, 1, 2]]).tolist()


def test_a_checkpoint_fits_its_own_text_and_model_only() -> None:
    checkpoint = Training(spec(), TEXT).save()
    with pytest.raises(SpecError, match="another text"):
        Training.restore(spec(), TEXT + "more of it", checkpoint)
    with pytest.raises(SpecError, match="the checkpoint holds GPTConfig"):
        Training.restore(spec(model={**GPT, "num_layers": 1}), TEXT, checkpoint)


def test_a_loss_that_diverges_is_reported() -> None:
    training = Training(spec(steps=30, optimizer="sgd", lr=1e30), TEXT)
    losses = [training.run_step()["loss"] for _ in range(5)]
    assert not all(np.isfinite(losses))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps is 0; it must be an integer of at least 1"),
        ({"batch": 2.0}, "batch is 2.0"),
        ({"lr": float("nan")}, "lr is nan; it must be a number of at least 0"),
        ({"optimizer": "sofa"}, "optimizer is 'sofa'; it must be one of sgd, adam"),
        ({"schedule": "random"}, "schedule is 'random'; it must be one of constant"),
        ({"model": {"name": "gpt", "seq_len": 400}}, "windows of 400 need at least 802"),
        ({"model": {"name": "gpt", "wide": 1}}, "wide is not a field"),
    ],
)
def test_bad_specifications_name_field_value_and_rule(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Training(spec(**changes), TEXT)


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(ValueError, match="the text is empty"):
        Training(spec(), "")


def test_schedules_cover_the_run() -> None:
    for name in SCHEDULES:
        factors = [SCHEDULES[name](100)(step) for step in range(100)]
        assert factors[0] == 1.0
        assert factors == sorted(factors, reverse=True)
