"""Training on plans: the bits of eager training, whatever is trained, clipped, dropped out or resumed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest
from golden import GOLDEN, RUNS, STEPS, training, weights_after_fifty_steps

from engine.devices.cpu import CpuDevice
from engine.devices.device import current_device, use_device
from engine.devices.reference import ReferenceDevice
from engine.devices.toolchain import find_toolchain
from engine.training import Training

pytestmark = pytest.mark.skipif(not isinstance(current_device(), CpuDevice), reason="plans need a C compiler")


def eager(run: Training) -> Training:
    """The same training without plans."""
    run._compiled_step, run._compiled_loss = run._step, run._held_out_loss  # type: ignore[assignment]
    return run


@pytest.mark.parametrize("name", sorted(RUNS))
def test_plans_train_with_the_bits_of_eager(name: str) -> None:
    compiled, plain = training(RUNS[name]), eager(training(RUNS[name]))
    for step in range(STEPS):
        assert compiled.run_step() == plain.run_step()
        if step % 8 == 3:
            assert compiled.evaluate() == plain.evaluate()
    assert compiled.save() == plain.save()
    assert len(compiled._compiled_step.plans) == 1


@pytest.mark.parametrize("name", ["gpt dropout, clipped", "mlp adam"])
def test_resuming_mixes_freely_with_plans(name: str) -> None:
    whole = training(RUNS[name])
    for _ in range(STEPS):
        whole.run_step()
    run = training(RUNS[name])
    while run.step < STEPS:
        for _ in range(5):
            run.run_step()
        checkpoint = run.save()
        stored = replace(checkpoint, state=json.loads(json.dumps(checkpoint.state)))
        run = training(RUNS[name], Training.restore, stored)
        if run.step == 10:
            run = eager(run)
    assert run.save() == whole.save()


def test_a_checkpoint_is_not_changed_by_later_steps() -> None:
    run = training({})
    run.run_step()
    weights = run.model.state_dict()
    slots = run._optimizer.state_dict()
    before = [x.tobytes() for x in (*weights.values(), *slots.values())]
    run.run_step()
    run.run_step()
    assert [x.tobytes() for x in (*weights.values(), *slots.values())] == before
    assert [x.tobytes() for x in run.model.state_dict().values()] != [x.tobytes() for x in weights.values()]


def test_sampling_and_evaluation_do_not_disturb_training() -> None:
    disturbed, quiet = training(RUNS["gpt dropout, clipped"]), training(RUNS["gpt dropout, clipped"])
    for step in range(6):
        quiet.run_step()
        disturbed.run_step()
        if step % 2:
            disturbed.sample("the", 5)
            disturbed.evaluate()
    assert disturbed.save() == quiet.save()


def test_without_a_compiler_training_runs_in_eager() -> None:
    with use_device(ReferenceDevice()):
        run = training({"model": {"name": "bigram"}})
        run.run_step()
        run.evaluate()
    assert run._compiled_step.plans == []


BUILDS = [
    pytest.param(None, 1, id="1 thread"),
    pytest.param(None, 3, id="3 threads"),
    pytest.param("gcc -O3", 2, marks=pytest.mark.slow, id="gcc -O3"),
    pytest.param("gcc -mno-avx512f", 2, marks=pytest.mark.slow, id="gcc -mno-avx512f"),
    pytest.param("clang", 2, marks=pytest.mark.slow, id="clang"),
    pytest.param(f"{sys.executable} -m ziglang cc", 2, marks=pytest.mark.slow, id="zig"),
]


@pytest.mark.parametrize("name", sorted(GOLDEN))
@pytest.mark.parametrize(("command", "threads"), BUILDS)
def test_fifty_steps_have_the_committed_bits(name: str, command: str | None, threads: int) -> None:
    toolchain = None if command is None else find_toolchain({"GRADMILL_CC": command})
    if command is not None and toolchain is None:
        pytest.skip(f"{command} is not installed")
    with use_device(CpuDevice(threads, toolchain)):
        assert weights_after_fifty_steps(name) == GOLDEN[name]
