"""Lets requests in flight finish before anything is stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import httpx
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock

_ACTIVE = r"^http\.ingress\.downstream_rq_active$"
_PAUSE_S = 0.1


async def drain_ingress(admin: str, *, seconds: float, say: Callable[[str], None], clock: Clock = SYSTEM_CLOCK) -> int:
    """Tells Envoy to drain its listeners and waits until the ingress has no request left.

    Connections are told to close after their request. Envoy itself keeps running, because what
    is in flight still needs its mesh listener.

    Args:
        admin: URL of Envoy's admin page.
        seconds: Longest wait.
        say: Is told how many requests are waited for.
        clock: Source of time.

    Returns:
        Requests that were still in flight at the end; 0 where Envoy is not there.
    """
    give_up = clock.monotonic() + seconds
    active, told = 0, -1
    async with httpx.AsyncClient(trust_env=False, timeout=5) as http:
        try:
            (await http.post(f"{admin}/drain_listeners?graceful&skip_exit")).raise_for_status()
            while True:
                response = await http.get(f"{admin}/stats", params={"filter": _ACTIVE, "format": "json"})
                active = active_requests(response.text)
                if active == 0 or clock.monotonic() >= give_up:
                    return active
                if active != told:
                    told = active
                    say(f"waiting for {active} request(s) in flight, at most {seconds:.0f} s")
                await asyncio.sleep(_PAUSE_S)
        except httpx.HTTPError:
            return active


def active_requests(stats: str) -> int:
    """Returns the sum of the gauges in a JSON answer of Envoy's `/stats`."""
    return sum(int(each["value"]) for each in json.loads(stats).get("stats", ()) if "value" in each)


def listed_endpoints(clusters: str) -> set[tuple[str, str]]:
    """Returns (cluster, `host:port`) of every endpoint in a JSON answer of Envoy's `/clusters`."""
    found = set()
    for cluster in json.loads(clusters).get("cluster_statuses", ()):
        for host in cluster.get("host_statuses", ()):
            address = host.get("address", {}).get("socket_address", {})
            found.add((str(cluster["name"]), f"{address.get('address')}:{address.get('port_value')}"))
    return found
