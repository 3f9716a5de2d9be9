"""Fixtures of the integration tests: an embedded server, and workers as real processes on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_rig import Api
from cluster import Cluster

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
