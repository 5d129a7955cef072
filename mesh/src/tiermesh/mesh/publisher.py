"""Turns configurations into published snapshots, or into a reason why the last good one stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from google.protobuf.json_format import ParseError
from tiermesh.mesh.api_keys import ApiKeys
from tiermesh.mesh.cache import SnapshotCache
from tiermesh.mesh.snapshot import InconsistentSnapshot
from tiermesh.mesh.topology import make_snapshots
from tiermesh.shared.clock import Clock
from tiermesh.shared.config import ConfigError, TiermeshConfig
from tiermesh.shared.telemetry import get_logger

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Published:
    """What is being served."""

    config: TiermeshConfig
    version: str
    wall_time: float
    """When it was published, in seconds since the Unix epoch."""


class Publisher:
    """Publishes what it is offered if it is sound, and has it kept for processes that start while the file is wrong."""

    def __init__(
        self,
        snapshots: SnapshotCache,
        *,
        read_keys: Callable[[TiermeshConfig], ApiKeys],
        environ: Mapping[str, str],
        clock: Clock,
        keep: Callable[[TiermeshConfig], None] = lambda _: None,
    ) -> None:
        self._snapshots = snapshots
        self._read_keys = read_keys
        self._environ = environ
        self._clock = clock
        self._keep = keep
        self._newest: TiermeshConfig | None = None
        self._unreadable = ""
        """Why the file cannot be read, while it cannot; what it refers to may change meanwhile."""
        self.published: Published | None = None
        """What is being served; None before the first sound configuration."""
        self.rejection = ""
        """Why the newest offer was refused; empty when it was not."""

    def offer(self, offered: TiermeshConfig | ConfigError) -> bool:
        """Publishes a configuration, or notes and logs why it cannot be.

        Returns:
            Whether the offer is sound, and therefore what is being served.
        """
        if isinstance(offered, ConfigError):
            self._unreadable = str(offered)
            return self._refuse(self._unreadable)
        self._newest, self._unreadable = offered, ""
        return self._publish(offered)

    def _publish(self, offered: TiermeshConfig) -> bool:
        try:
            self._check_fixed(offered)
            snapshots = make_snapshots(offered, self._read_keys(offered), self._environ)
            changed = self._snapshots.publish(snapshots)
        except (ConfigError, InconsistentSnapshot, ParseError, ValueError) as error:
            return self._refuse(str(error))
        self.rejection = self._unreadable
        self._keep(offered)
        if changed or self.published is None:
            self.published = Published(offered, snapshots["local"].version, self._clock.wall())
            _log.info("published", version=self.published.version)
        else:
            # A change that Envoy does not see, such as another price of a tier.
            self.published = Published(offered, self.published.version, self.published.wall_time)
        return True

    def refresh(self) -> bool:
        """Publishes the newest readable configuration again, because something that it refers to may have changed."""
        return self._publish(self._newest) if self._newest is not None else False

    def _check_fixed(self, offered: TiermeshConfig) -> None:
        """Refuses changes that running processes cannot follow.

        Raises:
            ConfigError: naming the keys.
        """
        if self.published is None:
            return
        before, after = self.published.config, offered
        for section in ("network", "discovery", "tls"):
            old, new = getattr(before, section), getattr(after, section)
            moved = [key for key in type(old).model_fields if getattr(old, key) != getattr(new, key)]
            if moved:
                keys = ", ".join(f"{section}.{key}" for key in moved)
                raise ConfigError(f"{keys}: cannot change while the mesh runs; restart it, or put the old value back")

    def _refuse(self, reason: str) -> bool:
        self.rejection = reason
        _log.error("refused a configuration; the last good one keeps serving", reason=reason)
        return False
