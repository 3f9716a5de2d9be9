"""Fixtures of the integration tests: an embedded server, and workers as real processes on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from api_rig import Api
from cluster import Cluster

from service.client import Client
from service.embedded import EmbeddedServer


@pytest.fixture
def embedded_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A Redis-compatible server of the test's own."""
    with EmbeddedServer(tmp_path / "data") as server:
        yield server


@pytest.fixture
def cluster(embedded_server: EmbeddedServer, tmp_path: Path) -> Iterator[Cluster]:
    """Short leases, no workers yet; every process it starts is gone at the end."""
    with Cluster(embedded_server.url, tmp_path / "data") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A real API on a free port, shared by the tests of a module."""
    with Api(tmp_path_factory.mktemp("api")) as running:
        yield running


@pytest.fixture(scope="module")
def start_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Cluster]]:
    """Starts an API and real workers of the lanes named, with these settings; a module's ``system``."""
    with ExitStack() as stack:

        def start(*lanes: str, **settings: str) -> Cluster:
            data = tmp_path_factory.mktemp("system")
            server = stack.enter_context(EmbeddedServer(data))
            cluster = stack.enter_context(Cluster(server.url, data))
            cluster.environment |= {"GRADMILL_STALL_S": "60", **settings}
            cluster.environment["GRADMILL_URL"] = cluster.start_api()
            for lane in lanes:
                cluster.start("-m", "workers.lane", lane)
            return cluster

        yield start


@pytest.fixture(scope="module")
def client(system: Cluster) -> Iterator[Client]:
    """A client of the module's system."""
    with Client(system.environment["GRADMILL_URL"]) as client:
        yield client


@pytest.fixture(scope="module")
def http(system: Cluster) -> Iterator[httpx.Client]:
    """Requests to the module's system as they are."""
    url = system.environment["GRADMILL_URL"]
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        yield client
