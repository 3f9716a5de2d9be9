"""Small parts of the workers: metric columns, pace, failures, memory, limits."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis

from service.jobs.tickets import ENTRY
from workers import pace as pace_module
from workers.failures import InvalidDatasetError, NonFiniteLossError, explain
from workers.limits import KEPT, restrict_environment
from workers.memory import oom_kills, usable_memory
from workers.metrics import MetricColumns
from workers.pace import Pace
from workers.stop import Reason, Stop
from workers.ticket import Ticket, TicketRefusedError, work

NAMES = st.sampled_from(["loss", "val_loss", "lr"])
ROWS = st.lists(st.tuples(st.integers(0, 5), st.dictionaries(NAMES, st.floats(), max_size=3)), max_size=20)


@settings(deadline=None)
@given(ROWS)
def test_columns_hold_every_number_at_its_step(rows: list[tuple[int, dict[str, float]]]) -> None:
    steps = 0
    columns = MetricColumns()
    expected: dict[int, dict[str, float]] = {}
    for more, values in rows:
        steps += more
        expected.setdefault(steps, {}).update(values)
        columns.add(steps, values)
    assert bool(columns) == bool(rows)
    data = columns.take()
    json.dumps(data, allow_nan=False)
    assert data["steps"] == list(expected)
    for name, column in data["values"].items():
        for step, value in zip(data["steps"], column, strict=True):
            said = expected[step].get(name, math.nan)
            assert value == (said if math.isfinite(said) else None)
    bad = {name for row in expected.values() for name, value in row.items() if not math.isfinite(value)}
    assert set(data.get("nonfinite", [])) == bad
    assert not columns


class FakeTime:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    clock = FakeTime()
    monkeypatch.setattr(pace_module, "time", clock)
    return clock


def test_the_time_left_follows_the_pace_of_the_last_minute(clock: FakeTime) -> None:
    pace = Pace()
    pace.reached(0, 1000)
    assert pace.report() == {"step": 0, "steps": 1000, "eta_s": None}
    for step in range(1, 101):
        clock.now += 10 if step <= 10 else 1
        pace.reached(step, 1000)
    assert pace.report()["eta_s"] == pytest.approx(900, rel=0.01)


def test_a_silence_is_long_compared_with_the_usual_one(clock: FakeTime) -> None:
    pace = Pace()
    assert pace.allowed(3.0) == 3.0
    for _ in range(5):
        clock.now += 2
        pace.tick()
    assert pace.allowed(3.0) == 20.0
    assert pace.allowed(60.0) == 60.0
    clock.now += 7
    assert pace.silent_for() == 7


@pytest.mark.parametrize(
    ("error", "code", "final"),
    [
        (NonFiniteLossError("x"), "non-finite-loss", True),
        (InvalidDatasetError("x"), "invalid-dataset", True),
        (MemoryError(), "out-of-memory", True),
        (ZeroDivisionError("x"), "internal-error", False),
    ],
)
def test_every_failure_has_a_code_and_a_message(error: Exception, code: str, final: bool) -> None:
    failure = explain(error)
    assert (failure.code, failure.final) == (code, final)
    assert failure.message


def test_an_order_to_stop_passes_through_careless_handlers() -> None:
    with pytest.raises(Stop) as caught:
        try:
            raise Stop(Reason.CANCEL)
        except Exception:
            pytest.fail("swallowed")
    assert caught.value.reason.keeps_work
    assert not Reason.FENCED.keeps_work


def test_kills_for_memory_are_counted(tmp_path: Path) -> None:
    events = tmp_path / "memory.events"
    assert oom_kills(events) == 0
    events.write_text("low 0\nhigh 2\nmax 7\noom 3\noom_kill 2\n")
    assert oom_kills(events) == 2


MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
GROUPS: dict[str, tuple[str, dict[str, str], int]] = {
    "version 2": ("0::/a/b\n", {"a/b/memory.max": "5000000\n"}, 5_000_000),
    "version 2, outer group": ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "4000000"}, 4_000_000),
    "version 2, container": ("0::/\n", {"memory.max": "3000000\n"}, 3_000_000),
    "version 1": (
        "4:cpu:/x\n3:hugetlb,memory:/c\n0::/\n",
        {"memory/c/memory.limit_in_bytes": "2000000\n", "memory/x/memory.limit_in_bytes": "1\n"},
        2_000_000,
    ),
    "version 1, container": ("3:memory:/c\n", {"memory/memory.limit_in_bytes": "1000000"}, 1_000_000),
    "no limit": ("0::/a\n", {"a/memory.max": "max\n"}, MACHINE),
    "more than there is": ("3:memory:/\n", {"memory/memory.limit_in_bytes": str(2**63 - 4096)}, MACHINE),
}


@pytest.mark.parametrize("membership, files, usable", GROUPS.values(), ids=GROUPS)
def test_the_smallest_limit_is_what_can_be_used(
    tmp_path: Path, membership: str, files: dict[str, str], usable: int
) -> None:
    (tmp_path / "cgroup").write_text(membership)
    for name, content in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    assert usable_memory(tmp_path / "cgroup", tmp_path / "groups") == usable


def test_without_control_groups_the_machine_counts(tmp_path: Path) -> None:
    assert usable_memory(tmp_path / "none", tmp_path) == MACHINE


def test_threads_that_only_wait_are_no_memory() -> None:
    """Their stacks and arenas are address space, several times of what the process may have here."""
    code = (
        "import threading; from workers.limits import restrict_process\n"
        "restrict_process(2**30)\n"
        "done = threading.Event()\n"
        "threads = [threading.Thread(target=done.wait) for _ in range(64)]\n"
        "for thread in threads: thread.start()\n"
        "done.set()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_restricted_process_keeps_its_files_private_and_its_memory_bounded(tmp_path: Path) -> None:
    code = (
        "import sys, resource; from workers.limits import restrict_process\n"
        "restrict_process(2**31)\n"
        "open(sys.argv[1], 'w').close()\n"
        "try: bytearray(2**32)\n"
        "except MemoryError: print('bounded', resource.getrlimit(resource.RLIMIT_CORE))\n"
    )
    path = tmp_path / "file"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "bounded (0, 0)"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_restricted_process_writes_no_endless_file_and_opens_few(tmp_path: Path) -> None:
    code = (
        "import sys, resource; from workers.limits import restrict_process\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "restrict_process(file_bytes=1000)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
        "try: open(sys.argv[1], 'wb', buffering=0).write(b'x' * 1001)\n"
        "except OSError as error: print(error.errno)\n"
        "with open(sys.argv[1], 'ab', buffering=0) as file:\n"
        "    try: file.write(b'x' * 1001)\n"
        "    except OSError as error: print(error.errno)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["64", str(errno.EFBIG)]
    assert (tmp_path / "file").stat().st_size == 1000


def test_a_workers_children_learn_no_address_and_no_key() -> None:
    environment = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "GRADMILL_THREADS": "2",
        "GRADMILL_REDIS_URL": "redis://gradmill:secret@redis",
        "GRADMILL_API_KEY": "key_a_secret",
        "GRADMILL_WORKER_KEY_FILE": "/run/secrets/worker_key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    restrict_environment(environment)
    assert sorted(environment) == ["GRADMILL_THREADS", "LC_ALL", "PATH"]


def test_what_the_engine_reads_of_the_environment_is_left_to_it() -> None:
    engine = Path(__file__).parents[2] / "engine"
    read = {
        name
        for path in engine.rglob("*.py")
        for name in re.findall(r"[\"'](GRADMILL_[A-Z_]+)[\"']", path.read_text())
    }
    assert read <= KEPT
    assert "CC" in KEPT


def entry(function: str, args: list[str], kwargs: dict[str, int], **fields: bytes) -> Ticket:
    """An entry as someone may have written it into Redis."""
    ticket = Ticket("forged", connection=Redis(), serializer="json")  # the connection is never used
    data = json.dumps([function, None, args, kwargs]).encode()
    ticket.restore({b"data": data, **{name.encode(): value for name, value in fields.items()}})
    return ticket


def test_a_ticket_keeps_nothing_that_rq_would_run_by_itself() -> None:
    ticket = entry(
        "os.system",
        ["true"],
        {},
        success_callback_name=b"os.getpid",
        failure_callback_name=b"os.getpid",
        stopped_callback_name=b"os.getpid",
        webhooks=b'[{"url": "http://127.0.0.1/"}]',
        retries_left=b"3",
        repeats_left=b"3",
        timeout=b"1",
    )
    assert ticket.success_callback is ticket.failure_callback is None
    assert ticket._stopped_callback_name is ticket.retries_left is ticket.repeats_left is None
    assert ticket.webhooks == []
    assert ticket.timeout == -1
    with pytest.raises(TicketRefusedError, match=r"os\.system"):
        _ = ticket.func


def test_only_a_ticket_with_one_lane_is_run() -> None:
    for args, kwargs in [([], {}), (["a", "b"], {}), (["a"], {"b": 1})]:
        with pytest.raises(TicketRefusedError):
            _ = entry(ENTRY, args, kwargs).func
    assert entry(ENTRY, ["cpu-batch"], {}).func is work
