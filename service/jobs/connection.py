"""Connections to Redis. All return bytes, as RQ needs it."""

from __future__ import annotations

from typing import Any

from redis import Redis
from redis.asyncio import BlockingConnectionPool
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialWithJitterBackoff
from redis.connection import HiredisRespSerializer
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

CONNECTIONS = 64  # of one pool; more requests than that wait for one
WAIT_S = 10.0  # that a request waits for a connection
_LOST = (RedisConnectionError, RedisTimeoutError)


def connect(url: str, *, patient: bool = True) -> Redis:
    """A synchronous connection; a patient one outlives minutes without a server, as a worker must."""
    attempts, cap = (100, 3.0) if patient else (2, 0.2)
    retry = Retry(ExponentialWithJitterBackoff(base=0.2, cap=cap), attempts, _LOST)
    return Redis.from_url(url, retry=retry, health_check_interval=30)


class _Pool(BlockingConnectionPool):
    """Hands out a connection that is free without the lock and the timer that waiting for one takes.

    Commands are packed by hiredis; redis-py has its asynchronous connections do that in Python.
    """

    def make_connection(self) -> Any:
        connection: Any = super().make_connection()  # type: ignore[no-untyped-call]
        connection.pack_command = HiredisRespSerializer().pack
        return connection

    async def get_connection(self, *_: Any, **__: Any) -> Any:
        if not self.can_get_connection():
            return await super().get_connection()  # type: ignore[no-untyped-call]
        connection: Any = self.get_available_connection()  # type: ignore[no-untyped-call]
        try:
            await self.ensure_connection(connection)
        except BaseException:
            await self.release(connection)
            raise
        return connection


def aconnect(url: str, *, timeout_s: float = 1.5, retries: int = 1) -> AsyncRedis:
    """An asynchronous connection pool that gives up within seconds, so that a request gets its 503.

    No command may block for as long as ``timeout_s``. Without retries the caller sees every outage.
    """
    retry = AsyncRetry(ExponentialWithJitterBackoff(base=0.05, cap=0.2), retries, _LOST)
    pool = _Pool.from_url(
        url,
        retry=retry,
        max_connections=CONNECTIONS,
        timeout=WAIT_S,
        socket_timeout=timeout_s,
        socket_connect_timeout=1,
    )
    return AsyncRedis.from_pool(pool)
