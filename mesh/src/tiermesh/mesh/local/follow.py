"""Follows the configuration file: starts, restarts and stops processes as it changes.

The control plane follows the same file by itself and tells Envoy. The two meet at Envoy: a
process that is no longer wanted is stopped only after Envoy has dropped its endpoint, and a new
one is given requests only when Envoy's health check has found it serving.

    python -m tiermesh.mesh.local.follow --config FILE --state DIR
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx
from tiermesh.mesh.local.drain import listed_endpoints
from tiermesh.mesh.local.errors import LocalError
from tiermesh.mesh.local.health import HealthChecker, open_health_checker
from tiermesh.mesh.local.installation import Installation, find_installation
from tiermesh.mesh.local.layout import StateLayout
from tiermesh.mesh.local.processes import ProcessSpec, plan_processes
from tiermesh.mesh.local.reconcile import Plan, plan_changes
from tiermesh.mesh.local.supervision import Supervisor
from tiermesh.mesh.local.supervisor_conf import render_supervisor_conf
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock
from tiermesh.shared.config import ConfigError, TiermeshConfig, watch_config
from tiermesh.shared.endpoints import CONTROL_PLANE
from tiermesh.shared.process import Process, main
from tiermesh.shared.telemetry import configure_logging, get_logger

_log = get_logger(__name__)
_PAUSE_S = 0.2
_ENVOY_DROPS_S = 15.0
_SERVES_S = 600.0


class Follower:
    """Brings what runs into line with a configuration."""

    def __init__(
        self,
        supervisor: Supervisor,
        layout: StateLayout,
        installation: Installation,
        *,
        config_path: Path,
        environ: Mapping[str, str],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._supervisor = supervisor
        self._layout = layout
        self._installation = installation
        self._config_path = config_path
        self._environ = environ
        self._clock = clock
        self._running: dict[str, ProcessSpec] = {}

    def remember(self, config: TiermeshConfig) -> None:
        """Takes `config` for what runs now."""
        self._running = self._specs(config)

    async def apply(self, config: TiermeshConfig) -> Plan:
        """Does what a configuration asks for, and returns what that was."""
        wanted = self._specs(config)
        before = self._layout.supervisor_conf.read_text(encoding="utf-8")
        text = render_supervisor_conf(wanted.values(), self._layout, drain_s=config.drain_s)
        self._layout.supervisor_conf.write_text(text, encoding="utf-8")
        plan = plan_changes(await asyncio.to_thread(self._supervisor.reload), self._running, wanted)
        if plan.refused:
            self._layout.supervisor_conf.write_text(before, encoding="utf-8")
            await asyncio.to_thread(self._supervisor.reload)
            _log.error(
                "this change needs `tiermesh down` and `tiermesh up`; the processes stay as they are",
                processes=list(plan.refused),
            )
            return plan
        if not plan.is_empty:
            _log.info(
                "applying a changed configuration",
                start=plan.start,
                move=plan.move,
                restart=plan.restart,
                stop=plan.stop,
            )
            await self._execute(plan, config, wanted)
        self._running = wanted
        return plan

    async def _execute(self, plan: Plan, config: TiermeshConfig, wanted: Mapping[str, ProcessSpec]) -> None:
        for name in plan.start:
            await asyncio.to_thread(self._supervisor.add, name)
        await asyncio.gather(*(asyncio.to_thread(self._supervisor.remove, name) for name in plan.move))
        for name in plan.move:
            await asyncio.to_thread(self._supervisor.add, name)
        async with open_health_checker(config) as checker:
            await asyncio.gather(*(self._roll(group, wanted, checker) for group in plan.restart))
        await asyncio.gather(*(self._retire(name, config) for name in plan.stop))

    async def _roll(self, group: tuple[str, ...], wanted: Mapping[str, ProcessSpec], checker: HealthChecker) -> None:
        for name in group:
            await asyncio.to_thread(self._supervisor.remove, name)
            await asyncio.to_thread(self._supervisor.add, name)
            give_up = self._clock.monotonic() + _SERVES_S
            while await checker.check(wanted[name], is_up=True) != "serving":
                if self._clock.monotonic() > give_up:
                    _log.error(
                        "does not serve with its new settings; the other replicas keep their old ones", process=name
                    )
                    return
                await asyncio.sleep(_PAUSE_S)

    async def _retire(self, name: str, config: TiermeshConfig) -> None:
        spec = self._running.get(name)
        if spec is not None and spec.cluster is not None and not await self._dropped(spec, config):
            _log.error("Envoy still sends it requests, so it is kept; see the control plane's log", process=name)
            return
        # It finishes what it has been given before it ends.
        await asyncio.to_thread(self._supervisor.remove, name)

    async def _dropped(self, spec: ProcessSpec, config: TiermeshConfig) -> bool:
        """Waits until Envoy no longer lists an endpoint; an Envoy that is not there lists none."""
        url = f"http://127.0.0.1:{config.network.admin_port}/clusters"
        give_up = self._clock.monotonic() + _ENVOY_DROPS_S
        async with httpx.AsyncClient(trust_env=False, timeout=5) as http:
            while self._clock.monotonic() < give_up:
                try:
                    text = (await http.get(url, params={"format": "json"})).text
                except httpx.HTTPError:
                    return True
                if (spec.cluster, f"{spec.host}:{spec.port}") not in listed_endpoints(text):
                    return True
                await asyncio.sleep(_PAUSE_S)
        return False

    def _specs(self, config: TiermeshConfig) -> dict[str, ProcessSpec]:
        specs = plan_processes(
            config,
            config_path=self._config_path,
            layout=self._layout,
            installation=self._installation,
            environ=self._environ,
        )
        return {spec.name: spec for spec in specs}


async def run(process: Process) -> None:
    """Follows the configuration file until told to stop."""
    configure_logging("follower", level=process.config.logging.level)
    layout = StateLayout(process.state)
    follower = Follower(
        Supervisor(layout),
        layout,
        find_installation(process.environ),
        config_path=process.config_path,
        environ=process.environ,
    )
    follower.remember(process.config)
    await _apply(follower, process.config)
    async for change in watch_config(process.config_path, process.environ):
        if isinstance(change, ConfigError):
            _log.error("the changed configuration is refused; everything stays as it is", error=str(change))
        else:
            await _apply(follower, change)


async def _apply(follower: Follower, config: TiermeshConfig) -> None:
    try:
        await follower.apply(config)
    except LocalError as error:
        _log.error("the changed configuration could not be applied", error=str(error))
    except Exception as error:  # the next change must find a follower; supervisord's own faults are of many types
        _log.error("the changed configuration could not be applied", exc_info=error)


if __name__ == "__main__":
    sys.exit(main("tiermesh.mesh.local.follow", run, cluster=CONTROL_PLANE))
