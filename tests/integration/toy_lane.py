"""The process of a lane that knows one more kind of job: ``toy``, which needs no engine.

Jobs of kind ``train`` are toys here too. A toy carries a number through ``steps`` turns of a linear
congruence and stores a checkpoint every ``every`` turns; its result says where it ended. A turn lasts
``pause_s``; ``fault`` names what goes wrong after turn ``fault_at``.

``TOY_GATE``, a phase and a folder, stops the first process that comes to this phase of its work: it writes
its process id to ``<folder>/reached`` and goes on when ``<folder>/open`` is there.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from service.blobs import BlobSpaceError, BlobStore
from service.settings import Settings
from workers import perform, ticket
from workers.attempt import Attempt
from workers.failures import NonFiniteLossError
from workers.handlers import MODULES, Outcome
from workers.lane import run_lane
from workers.stop import Stop

GATED_PHASE, _, GATE_FOLDER = os.environ.get("TOY_GATE", "").partition(" ")
NEEDED_BYTES = 2**28
GATED_STEP = 25


def pass_gate(phase: str) -> None:
    """Waits at the gate if it stands here. Whoever goes through needs some memory."""
    reached = Path(GATE_FOLDER, "reached")
    if phase != GATED_PHASE or reached.exists():
        return
    aside = reached.with_name("reaching")
    aside.write_text(str(os.getpid()))
    aside.rename(reached)
    while not Path(GATE_FOLDER, "open").exists():
        time.sleep(0.005)
    bytearray(NEEDED_BYTES)


def gated(phase: str, do: Callable[..., Any]) -> Callable[..., Any]:
    """A function that comes to the gate before it does its work."""

    def come(*args: Any, **options: Any) -> Any:
        pass_gate(phase)
        return do(*args, **options)

    return come


def turn(value: int) -> int:
    return (value * 6364136223846793005 + 1442695040888963407) % 2**64


def final_value(seed: int, steps: int) -> int:
    """What a toy ends with, whatever happens to it on the way."""
    value = seed
    for _ in range(steps):
        value = turn(value)
    return value


def run(attempt: Attempt, store: BlobStore) -> Outcome:
    spec: dict[str, Any] = attempt.job.spec
    step, value = 0, spec["seed"]
    if attempt.starting_points:
        saved = json.loads(store.get(attempt.starting_points[0]["weights"]))
        step, value = saved["step"], saved["value"]

    def save() -> None:
        content = json.dumps({"step": step, "value": value}).encode()
        writer = store.writer()
        try:
            writer.write(content[:8])
            writer.flush()
            pass_gate("checkpointing")
            writer.write(content[8:])
            name = writer.commit()
        finally:
            writer.abort()
        attempt.save({"step": step, "weights": name, "optimizer": name, "state": name, "bytes": {}}, store)

    pass_gate("claimed")
    try:
        while step < spec["steps"]:
            attempt.check()
            time.sleep(spec.get("pause_s", 0.01))
            step, value = step + 1, turn(value)
            attempt.metric(step, loss=1 / step)
            attempt.progress(step, spec["steps"])
            if step % spec.get("every", 10) == 0:
                save()
            if step == GATED_STEP:
                pass_gate("mid-step")
            if step == spec.get("fault_at"):
                FAULTS[spec["fault"]]()
    except Stop as stop:
        if stop.reason.keeps_work:
            save()
        raise
    return Outcome({"value": value, "pid": os.getpid()})


def hang() -> None:
    while True:
        time.sleep(0.01)


def not_a_number() -> None:
    raise NonFiniteLossError("the loss is NaN at step 3")


def no_memory() -> None:
    raise MemoryError


def bug() -> None:
    raise RuntimeError("a bug")


def full_disk() -> None:
    raise BlobSpaceError("no space left")


def swallow() -> None:
    """What a careless handler does: whatever is raised, it goes on."""
    while True:
        try:
            time.sleep(0.01)
        except Exception:
            continue


FAULTS = {f.__name__: f for f in (hang, not_a_number, no_memory, bug, full_disk, swallow)}

if __name__ == "__main__":
    sys.modules["toy_lane"] = sys.modules["__main__"]
    MODULES["toy"] = MODULES["train"] = "toy_lane"
    perform.SPACE_PAUSE_S = float(os.environ.get("TOY_SPACE_PAUSE_S", perform.SPACE_PAUSE_S))
    ticket.perform_next = gated("queued", ticket.perform_next)
    Attempt.finish = gated("finishing", Attempt.finish)  # type: ignore[method-assign]
    run_lane(sys.argv[1], Settings())
