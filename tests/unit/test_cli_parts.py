"""Parts of the command line that need no server: text, curves, specs from options, the picture of a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.cli.app import COMMANDS, group
from service.cli.exits import Exit
from service.cli.follow import Picture, progress_line, state_line
from service.cli.options import build_spec, help_of, leaves
from service.cli.report import describe_error
from service.cli.running import AlreadyRunningError, Running, owning, read_running, record_path, write_running
from service.cli.show import facts
from service.cli.text import BARS, clean, duration, sparkline
from service.client import NotFoundError, RefusedError, ServerFaultError
from service.specs.sample import Sample
from service.specs.train import Train
from workers.devices import passed_over


@settings(deadline=None)
@given(st.text())
def test_cleaned_text_cannot_steer_a_terminal(text: str) -> None:
    for lines in (False, True):
        cleaned = clean(text, lines=lines)
        assert all(
            character.isprintable() or character in " \n" for character in cleaned if ord(character) < 128
        )
        assert not set(cleaned) & {"\x1b", "\u202e", "\u200b", "\r", "\x9b"}
        assert lines or "\n" not in cleaned


def test_cleaned_text_keeps_what_people_write() -> None:
    assert clean("Zoë said: “naïve” – 你好\tx\ny") == "Zoë said: “naïve” – 你好 x y"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.4, "59 s"), (59.6, "1:00"), (185, "3:05"), (7380, "2:03:00")]
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_sparkline_goes_from_its_lowest_to_its_highest_bar() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == BARS
    assert sparkline([5.0] * 3) == BARS[0] * 3
    assert sparkline([]) == sparkline([float("nan")]) == ""
    assert len(sparkline(list(range(1000)), width=40)) == 40


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200), st.integers(1, 50))
def test_a_sparkline_is_as_long_as_its_values_up_to_its_width(values: list[float], width: int) -> None:
    assert len(sparkline(values, width)) == min(width, len(values))


def test_every_field_of_a_spec_can_be_set_by_an_option() -> None:
    names = {leaf.name for leaf in leaves(Train, frozenset({"corpus"}))}
    assert set(Train.model_fields) - {"model", "corpus"} <= names
    assert {"embed_dim", "num_heads", "hidden_dim", "seq_len", "dropout"} <= names
    assert {leaf.name for leaf in leaves(Sample, frozenset())} == set(Sample.model_fields)


def test_an_options_help_says_bounds_and_default() -> None:
    text = help_of(Train.model_fields["steps"])
    assert text == "Optimiser steps [≥ 1, ≤ 10000000, default 1000]"


def test_a_spec_is_built_from_file_then_options_then_set(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({"steps": 1, "batch": 2, "lr": 0.1, "model": {"name": "gpt", "tied": True}}))
    given_options: dict[str, Any] = {"steps": 10, "batch": None, "prompts": (), "embed_dim": 8, "lr": 0.2}
    spec = build_spec(Train, given_options, path, ("lr=0.3", "model.norm=rmsnorm", 'prompts=["a"]'))
    assert spec == {
        "steps": 10,
        "batch": 2,
        "lr": 0.3,
        "prompts": ["a"],
        "model": {"name": "gpt", "tied": True, "embed_dim": 8, "norm": "rmsnorm"},
    }


@pytest.mark.parametrize(("content", "words"), [("[1]", "holds list"), ("{", "is not JSON")])
def test_a_spec_file_that_is_no_object_is_refused(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "spec.json"
    path.write_text(content)
    with pytest.raises(click.UsageError, match=words):
        build_spec(Train, {}, path, ())


def event(seq: int, type_: str, attempt: int = 1, **data: Any) -> Any:
    return {"seq": seq, "type": type_, "time": "", "attempt": attempt, "data": data}


def test_a_picture_of_a_resumed_job_has_each_step_once() -> None:
    picture = Picture()
    picture.take(event(1, "state", state="running", worker="w"))
    picture.take(event(2, "metric", steps=[1, 2, 3], values={"loss": [3.0, 2.0, 1.0]}))
    picture.take(event(3, "metric", 2, steps=[2, 3], values={"loss": [2.0, None], "val_loss": [None, 4.0]}))
    picture.take(event(4, "progress", 2, step=3, steps=10, eta_s=70.0))
    assert picture.losses == [(1, 3.0), (2, 2.0)]
    assert progress_line(picture) == "step 3/10 · loss 2.0000 · validation 4.0000 · 1:10 left"
    assert state_line(picture) == "running · on w, attempt 2"


def test_an_older_validation_loss_says_its_step() -> None:
    picture = Picture()
    picture.take(event(1, "metric", steps=[0], values={"val_loss": [4.0]}))
    picture.take(event(2, "metric", steps=[1, 2], values={"loss": [3.0, 2.0]}))
    picture.take(event(3, "progress", step=2, steps=10, eta_s=None))
    assert progress_line(picture) == "step 2/10 · loss 2.0000 · validation 4.0000 (step 0)"


def test_a_sample_is_shown_without_a_number_for_each_character() -> None:
    choice = {"index": 0, "text": "a\nb", "logprobs": [-0.5] * 3, "finish_reason": "length"}
    job: Any = {
        **dict.fromkeys(("id", "kind", "state", "created_at"), "x"),
        **dict.fromkeys(("name", "error", "progress", "started_at", "ended_at")),
        "attempts": [],
        "spec": {"publish_as": "bard"},
        "result": {"choices": [choice], "seed": 3},
    }
    rows = dict(facts(job))
    assert rows["text 0"] == '"a\\nb"'
    assert rows["result"] == '{"seed": 3}'
    assert rows["name"] == "bard"


def test_another_compiler_than_the_named_one_is_said() -> None:
    assert passed_over({}, ("gcc",)) == passed_over({"CC": "gcc -O3"}, ("gcc",)) == ""
    assert passed_over({"CC": "x", "GRADMILL_CC": "gcc"}, ("gcc",)) == ""
    assert "CC is '/nonexistent', which" in passed_over({"CC": "/nonexistent"}, ("gcc",))


def test_a_setting_that_cannot_be_read_is_one_line() -> None:
    command = [sys.executable, "-m", "workers.devices"]
    environment = {**os.environ, "GRADMILL_THREADS": "abc"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: GRADMILL_THREADS is 'abc'; it must be a whole number from 1\n"


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (NotFoundError(404, {"code": "unknown-model"}), Exit.NOT_FOUND, "gradmill models"),
        (NotFoundError(404, {"code": "unknown-job"}), Exit.NOT_FOUND, "gradmill jobs"),
        (ServerFaultError(503, {"code": "no-worker"}), Exit.UNREACHABLE, "gradmill worker"),
        (ServerFaultError(500, {}), Exit.UNREACHABLE, "gradmill doctor"),
        (RefusedError(422, {"code": "invalid-field"}), Exit.USAGE, ""),
    ],
)
def test_a_hint_says_what_helps(error: Exception, code: Exit, words: str) -> None:
    described = describe_error(error)
    assert described is not None
    assert described.exit is code
    assert words in described.hint
    assert bool(words) == bool(described.hint)


def test_a_failure_says_why() -> None:
    picture = Picture()
    picture.take(event(1, "state", state="failed", code="timeout", message="too\x1b[2J long"))
    assert state_line(picture) == "failed · timeout: too[2J long"


def test_a_data_folder_has_one_owner_and_its_record_goes_with_it(tmp_path: Path) -> None:
    me = Running("http://127.0.0.1:1", "unix:///x", 1)
    with owning(tmp_path):
        write_running(tmp_path, me)
        assert read_running(tmp_path) == me
        with pytest.raises(AlreadyRunningError, match=str(tmp_path)), owning(tmp_path):
            pass
    assert read_running(tmp_path) is None
    record_path(tmp_path).write_text("{broken")
    assert read_running(tmp_path) is None


def test_every_command_exists_and_explains_itself() -> None:
    context = click.Context(group)
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.help


def test_help_loads_neither_server_nor_display() -> None:
    code = (
        "import sys; from service.cli.app import group; group.main(['--help'], standalone_mode=False)\n"
        "print(sorted(set(sys.argv[1:]) & set(sys.modules)))"
    )
    heavy = ["fastapi", "pydantic", "httpx", "rich", "redis", "rq", "engine"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
