"""``/metrics`` for Prometheus: what this process answered, and how the whole system stands.

Rates, errors, durations and saturation of requests are counted here; queues, workers, lost and ended jobs are
read from Redis, and blobs from the disk, when somebody asks.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from redis.asyncio import Redis
from starlette.types import Scope

from service.blobs import CollectedStore
from service.jobs.calls import LaneState, arun, lane_state
from service.jobs.lanes import LANES
from service.jobs.records import flat, key

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
BLOBS_EVERY_S = 60.0  # a store of many blobs takes a while to count
NO_ROUTE = "none"
LOST, ENDED = "lost:", "ended:"


class Times:
    """How long the answers of one route took to begin."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Bounds and how many answers took no longer."""
        bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
        return list(zip(bounds, accumulate(self.counts), strict=True))


class Meter:
    """Counts the requests of one process. Only its event loop counts, so there is no lock to take."""

    def __init__(self) -> None:
        self.open = 0  # requests being answered now
        self._answers: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        self._times: defaultdict[str, Times] = defaultdict(Times)

    def answered(self, scope: Scope, status: int, seconds: float) -> None:
        """Notes an answer; ``seconds`` until it began."""
        route = getattr(scope.get("route"), "path", NO_ROUTE)
        self._answers[scope["method"], route, status] += 1
        self._times[route].add(seconds)

    def families(self) -> list[Metric]:
        """The metrics at this moment."""
        requests = CounterMetricFamily(
            "gradmill_http_requests", "Requests answered.", labels=["method", "route", "status"]
        )
        for (method, route, status), number in self._answers.items():
            requests.add_metric([method, route, str(status)], number)
        seconds = HistogramMetricFamily(
            "gradmill_http_request_seconds", "Time until an answer began.", labels=["route"]
        )
        for route, times in self._times.items():
            seconds.add_metric([route], times.buckets(), times.total)
        text = "Requests being answered now, streams among them."
        return [requests, seconds, _gauge("gradmill_http_requests_open", text, self.open)]


class Overview:
    """How the system stands, as every API process sees it."""

    def __init__(self, redis: Redis, blobs: CollectedStore) -> None:
        self._redis = redis
        self._blobs = blobs
        self._stored = (0, 0)
        self._stored_until = 0.0

    async def families(self) -> list[Metric]:
        """The metrics at this moment."""
        lanes = {lane: await arun(self._redis, lane_state(lane)) for lane in LANES}
        counts = await self._redis.hgetall(key("counts"))
        totals = {name: int(value) for name, value in flat(_pairs(counts)).items()}
        accepted, running = await self._redis.get(key("arrivals")), await self._redis.zcard(key("leases"))
        if time.monotonic() >= self._stored_until:
            self._stored = await asyncio.to_thread(self._blobs.usage)
            self._stored_until = time.monotonic() + BLOBS_EVERY_S
        return [
            *_lane_families(lanes),
            *_job_families(totals, int(accepted or 0), running),
            _gauge("gradmill_blobs", "Blobs stored.", self._stored[0]),
            _gauge("gradmill_blob_bytes", "Bytes of all blobs.", self._stored[1]),
        ]


def _pairs(fields: Mapping[Any, Any]) -> list[Any]:
    return [part for pair in fields.items() for part in pair]


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _lane_families(lanes: Mapping[str, LaneState]) -> list[Metric]:
    queued = GaugeMetricFamily("gradmill_queued_jobs", "Jobs queued.", labels=["lane"])
    age = GaugeMetricFamily("gradmill_queue_age_seconds", "Age of the queue's head.", labels=["lane"])
    workers = GaugeMetricFamily("gradmill_live_workers", "Workers heard lately.", labels=["lane"])
    for lane, state in lanes.items():
        queued.add_metric([lane], state.queued)
        age.add_metric([lane], (state.now - state.oldest_at) / 1000 if state.queued else 0)
        workers.add_metric([lane], state.live_workers)
    return [queued, age, workers]


def _job_families(totals: Mapping[str, int], accepted: int, running: int) -> list[Metric]:
    ended = CounterMetricFamily("gradmill_jobs_ended", "Jobs that ended.", labels=["kind", "state"])
    lost = CounterMetricFamily(
        "gradmill_attempts_lost", "Attempts lost; code worker-lost: the lease ran out.", labels=["code"]
    )
    lost.add_metric(["worker-lost"], totals.get(f"{LOST}worker-lost", 0))
    for name, number in sorted(totals.items()):
        if name.startswith(ENDED):
            ended.add_metric(name.removeprefix(ENDED).split(":"), number)
        elif name.startswith(LOST) and name != f"{LOST}worker-lost":
            lost.add_metric([name.removeprefix(LOST)], number)
    return [
        CounterMetricFamily("gradmill_jobs_accepted", "Jobs accepted.", value=accepted),
        _gauge("gradmill_running_jobs", "Jobs held by a worker.", running),
        ended,
        lost,
    ]


class _Given(Collector):
    """Metrics at hand."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


async def exposition(meter: Meter, overview: Overview) -> bytes:
    """The page that Prometheus reads, in its text format 0.0.4."""
    registry = CollectorRegistry()
    registry.register(_Given(meter.families() + await overview.families()))
    return generate_latest(registry)
