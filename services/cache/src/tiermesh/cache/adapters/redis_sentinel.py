"""The Redis that Sentinels name as the primary at present.

Every new connection asks them. One to a primary that has died ends, and the next asks anew. A primary that was replaced
while it lives goes on answering for seconds: so a pool in use also asks once a second, and leaves the old one.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from contextvars import Context
from typing import Any, cast
from urllib.parse import urlsplit

from redis.asyncio import BlockingConnectionPool, Connection, ConnectionPool, Redis
from redis.asyncio.connection import SSLConnection, parse_url
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError
from tiermesh.cache.adapters.redis_options import client_options
from tiermesh.shared.errors import Unavailable

_PORT = 26379
_ASK_S = 0.25
"""Longest wait for one Sentinel: another one may know."""
_ASK_AGAIN_S = 1.0
_OF_SENTINEL = "sentinel_"


class Sentinels(Sentinel):
    """Asks one after another, the one that answered last time first."""

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """Returns the primary's address.

        redis-py asks for all that a Sentinel knows of the service, where the old primary stands for as long as a
        failover goes on: seconds after the new one has been promoted, to which this command leads at once.

        Raises:
            MasterNotFoundError: none of them answers, or knows the service.
        """
        for sentinel in tuple(self.sentinels):
            with suppress(RedisConnectionError, RedisTimeoutError):
                address: Any = await sentinel.sentinel_get_master_addr_by_name(service_name)
                if address is not None:
                    self.sentinels.remove(sentinel)
                    self.sentinels.insert(0, sentinel)
                    host, port = address
                    return host.decode() if isinstance(host, bytes) else str(host), int(port)
        raise MasterNotFoundError(f"no Sentinel names a primary of {service_name!r}")

    async def members(self, service_name: str) -> dict[tuple[str, int], str]:
        """Asks all Sentinels at once for the servers of a service, and what is said of each.

        Raises:
            Unavailable: none of them answers.
        """
        told = await asyncio.gather(*(_members(sentinel, service_name) for sentinel in self.sentinels))
        known = [members for members in told if members is not None]
        if not known:
            raise Unavailable("no Sentinel says which servers may answer for the store; try again")
        found: dict[tuple[str, int], str] = {}
        for members in known:
            for address, flags in members.items():
                # Down only where none of them sees it.
                found[address] = min(found.get(address, flags), flags, key=lambda text: "down" in text)
        return found


async def _members(sentinel: Any, service_name: str) -> dict[tuple[str, int], str] | None:
    try:
        primary, replicas = await asyncio.gather(
            sentinel.sentinel_master(service_name), sentinel.sentinel_slaves(service_name)
        )
    except (RedisError, OSError):
        return None
    return {(str(each["ip"]), int(each["port"])): str(each["flags"]) for each in (primary, *replicas)}


class SentinelPool(SentinelConnectionPool, BlockingConnectionPool):
    """Connections to the primary; further operations wait for one, as they do at a single server."""

    _ask_at = -math.inf
    """When to ask the Sentinels again, on the loop's clock."""
    _asking: asyncio.Task[None] | None = None

    async def get_connection(self, command_name: Any = None, *keys: Any, **options: Any) -> Any:
        """Returns a connection to the primary, as far as is known; finds out beside it whether it still is."""
        del command_name, keys, options
        loop = asyncio.get_running_loop()
        if loop.time() >= self._ask_at and (self._asking is None or self._asking.done()):
            self._ask_at = loop.time() + _ASK_AGAIN_S
            self._asking = loop.create_task(self._ask(), context=Context())
        return await super().get_connection()  # type: ignore[no-untyped-call]  # redis-py's pools are not typed

    async def get_master_address(self) -> tuple[str, int]:
        """Asks the Sentinels; connections to another server than they name are given up when they have their reply."""
        before = self.master_address
        address: tuple[str, int] = await super().get_master_address()  # type: ignore[no-untyped-call]  # redis-py's pools are not typed
        if before is not None and before != address:
            await self.update_active_connections_for_reconnect()  # type: ignore[no-untyped-call]  # redis-py's pools are not typed
        return address

    async def _ask(self) -> None:
        # Until they answer, what is known stays.
        with suppress(RedisError, OSError):
            await self.get_master_address()

    async def aclose(self) -> None:
        """Closes all connections."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await super().aclose()


def make_sentinel_pool(url: str, *, connections: int, socket_timeout_s: float) -> tuple[Sentinels, SentinelPool]:
    """Returns the Sentinels, and a pool that connects on first use; close both, the pool first.

    Args:
        url: `redis://` or `rediss://`, credentials of Redis if it has any, Sentinels separated by commas, a slash, the
            service's name; perhaps another slash and the database's number. Options may follow as for one server;
            those that begin with `sentinel_`, such as `sentinel_password`, are for the Sentinels.
        connections: Most connections.
        socket_timeout_s: Longest wait for one reply or one connection.

    Raises:
        ValueError: the URL is not one.
        TypeError: it has options that there are not.
    """
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    sentinels = [_address(host) for host in hosts.split(",")]
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("the service that the Sentinels watch is not named")
    if database and not database.isdecimal():
        raise ValueError("the database is not a number")
    # Types of options are redis-py's business; its own parser takes one host.
    netloc = f"{credentials}@localhost" if credentials else "localhost"
    found: dict[str, Any] = dict(parse_url(f"{parts.scheme}://{netloc}/{database or 0}?{parts.query}"))
    is_tls = found.pop("connection_class", None) is SSLConnection
    options = {name: value for name, value in found.items() if name not in {"host", "port"}}
    for_sentinels = {name: options.pop(name) for name in list(options) if name.startswith(_OF_SENTINEL)}
    shared = {**client_options(), **({"ssl": True} if is_tls else {})}
    tls = {name: value for name, value in options.items() if name.startswith("ssl_")}
    sentinel = Sentinels(  # type: ignore[no-untyped-call]  # redis-py's pools are not typed
        sentinels,
        sentinel_kwargs={
            **shared,
            **tls,
            **{name.removeprefix(_OF_SENTINEL): value for name, value in for_sentinels.items()},
            "socket_timeout": _ASK_S,
            "socket_connect_timeout": _ASK_S,
        },
    )
    pool = SentinelPool(  # type: ignore[no-untyped-call]  # redis-py's pools are not typed
        service,
        sentinel,
        **shared,
        **options,
        max_connections=connections,
        timeout=socket_timeout_s,
        socket_timeout=socket_timeout_s,
        socket_connect_timeout=socket_timeout_s,
    )
    # Wrong options only show when a connection is made; this one is not opened.
    cast("Any", pool).make_connection()
    return sentinel, pool


def make_member(pool: SentinelPool, address: tuple[str, int], *, connections: int = 2) -> Redis:
    """Returns a client of one server of a pool's service, whatever its role; it connects on first use."""
    kind = SSLConnection if issubclass(pool.connection_class, SSLConnection) else Connection
    options = {**pool.connection_kwargs, "host": address[0], "port": address[1]}
    options.pop("connection_pool", None)
    return Redis.from_pool(ConnectionPool(kind, max_connections=connections, **options))


def _address(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("a Sentinel has no host")
    return parts.hostname, parts.port or _PORT
