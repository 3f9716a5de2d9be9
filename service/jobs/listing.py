"""The call that reads a page of the job list, and what such a list can be asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.ids import lowest_id
from service.jobs.calls import Call
from service.jobs.records import STATES, JobRecord, flat, job_record
from service.jobs.scripts import script

SKEW_MS = 60_000  # most that the clock which makes ids may differ from that of the server


@dataclass(frozen=True)
class Wanted:
    """Which jobs a list shows: all that fit every part. Times in milliseconds, both excluded."""

    kinds: Sequence[str]
    states: Sequence[str] = STATES
    name: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    created_after: int | None = None
    created_before: int | None = None

    @property
    def args(self) -> tuple[str | int, ...]:
        """The times, the ids that jobs of these times can have, and the labels."""
        after, before = self.created_after, self.created_before
        labels = ({} if self.name is None else {"": self.name}) | dict(self.metadata)
        return (
            "" if after is None else after,
            "" if before is None else before,
            "" if after is None else lowest_id("job", after - SKEW_MS),
            "" if before is None else lowest_id("job", before + SKEW_MS),
            *(part for label in labels.items() for part in label),
        )


def list_jobs(
    scope: str, wanted: Wanted, *, after: str = "", descending: bool = True, limit: int = 20
) -> Call[list[JobRecord]]:
    """A page of jobs in order of their ids; scope is an owner, or ``*`` for everyone."""
    order = "desc" if descending else "asc"
    return Call(
        script("list"),
        (scope, ",".join(wanted.kinds), ",".join(wanted.states), after, order, limit, *wanted.args),
        lambda reply: [job_record(flat(fields)) for fields in reply if fields],
    )
