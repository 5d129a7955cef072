"""Where the replicas of each cluster are: by the port plan of one machine, or by DNS."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from tiermesh.router.settings import Settings
from tiermesh.shared.endpoints import ROUTER, cluster_endpoints, cluster_host, engine_cluster
from tiermesh.shared.telemetry import get_logger

REFRESH_S = 2.0
"""Seconds between two looks at DNS; Envoy looks as often."""
_RESOLVE_S = 2.0
_log = get_logger(__name__)

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses, `host:port`, behind a name; raises OSError where there are none."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """Asks the system's resolver; IPv4 is preferred, as Envoy does."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    of_four = [address[0] for family, *_, address in found if family == socket.AF_INET]
    of_six = [f"[{address[0]}]" for family, *_, address in found if family == socket.AF_INET6]
    return [f"{ip}:{port}" for ip in dict.fromkeys(of_four or of_six)]


class ReplicaDirectory:
    """A `Replicas`.

    Args:
        settings: The configuration in force.
        resolve: Looks names up, in `dns` mode.
    """

    def __init__(self, settings: Settings, resolve: Resolve = resolve) -> None:
        self._settings = settings
        self._resolve = resolve
        self._found: dict[str, Sequence[str]] = {}

    def addresses(self, cluster: str) -> Sequence[str]:
        """Returns the addresses of a cluster's replicas, as far as they are known."""
        config = self._settings.current.config
        if config.discovery.mode == "dns":
            return self._found.get(cluster, ())
        return [str(endpoint) for endpoint in cluster_endpoints(config, cluster)]

    async def run(self) -> None:
        """Keeps what DNS says up to date until cancelled; where it says nothing, what it last said stays."""
        while True:
            config = self._settings.current.config
            if config.discovery.mode == "dns":
                # What nobody asks for is not looked up.
                for cluster in (ROUTER, *(engine_cluster(tier.name) for tier in config.tiers)):
                    try:
                        async with asyncio.timeout(_RESOLVE_S):
                            self._found[cluster] = await self._resolve(
                                cluster_host(config, cluster), config.discovery.service_port
                            )
                    except (OSError, TimeoutError) as error:
                        _log.debug("no address", cluster=cluster, error=str(error))
            await asyncio.sleep(REFRESH_S)
