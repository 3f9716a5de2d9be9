"""The process of a lane that knows one more kind of job: ``toy``, which needs no engine.

Jobs of kind ``train`` are toys here too. A toy carries a number through ``steps`` turns of a linear
congruence and stores a checkpoint every ``every`` turns; its result says where it ended. A turn lasts
``pause_s``; ``fault`` names what goes wrong after turn ``fault_at``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from service.blobs import BlobSpaceError, BlobStore
from service.settings import Settings
from workers.attempt import Attempt
from workers.failures import NonFiniteLossError
from workers.handlers import MODULES, Outcome
from workers.lane import run_lane
from workers.stop import Stop


def turn(value: int) -> int:
    return (value * 6364136223846793005 + 1442695040888963407) % 2**64


def run(attempt: Attempt, store: BlobStore) -> Outcome:
    spec: dict[str, Any] = attempt.job.spec
    step, value = 0, spec["seed"]
    if attempt.starting_points:
        saved = json.loads(store.get(attempt.starting_points[0]["weights"]))
        step, value = saved["step"], saved["value"]

    def save() -> None:
        name = store.put(json.dumps({"step": step, "value": value}).encode())
        attempt.save({"step": step, "weights": name, "optimizer": name, "state": name, "bytes": {}}, store)

    try:
        while step < spec["steps"]:
            attempt.check()
            time.sleep(spec.get("pause_s", 0.01))
            step, value = step + 1, turn(value)
            attempt.metric(step, loss=1 / step)
            attempt.progress(step, spec["steps"])
            if step % spec.get("every", 10) == 0:
                save()
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
    run_lane(sys.argv[1], Settings())
