"""A list of 100,000 jobs: a page of it costs the server no more than a page of a short one."""

from __future__ import annotations

import pytest
from api_rig import Api

from service.ids import new_id
from service.jobs import calls
from service.jobs.lanes import BATCH

SHORT, LONG = 100, 100_000
TOGETHER = 1_000
OTHERS = 60  # commands of the sweeper and of other background work meanwhile
PAGES = (
    "/v1/jobs",
    "/v1/jobs?order=asc&limit=100",
    "/v1/jobs?state=queued&kind=train",
    "/v1/jobs?name=rare",
)


def fill(api: Api, number: int) -> None:
    new = (calls.NewJob(new_id("job"), "train", BATCH, {}, name="common") for _ in range(number))
    while chosen := [calls.accept(job) for job, _ in zip(new, range(TOGETHER), strict=False)]:
        pipe = api.redis.pipeline(transaction=False)
        for call in chosen:
            pipe.evalsha(call.script.sha, 0, *call.args)
        pipe.execute()


def commands(api: Api) -> int:
    """The commands that the server has run so far, also those inside scripts."""
    return sum(each["calls"] for each in api.redis.info("commandstats").values())


def cost(api: Api, page: str) -> int:
    before = commands(api)
    answer = api.http.get(page)
    assert answer.json()["data"]
    return commands(api) - before


@pytest.mark.slow
def test_a_page_of_a_long_list_costs_no_more_than_of_a_short_one(api: Api) -> None:
    calls.run(api.redis, calls.accept(calls.NewJob(new_id("job"), "train", BATCH, {}, name="rare")))
    fill(api, SHORT)
    short = {page: cost(api, page) for page in PAGES}
    fill(api, LONG - SHORT)
    for page, before in short.items():
        assert cost(api, page) <= before + OTHERS
