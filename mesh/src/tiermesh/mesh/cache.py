"""The snapshots being served, by role. Holds the last good ones, wakes whoever waits; knows nothing of transport."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tiermesh.mesh.role import Role
from tiermesh.mesh.snapshot import Snapshot


class SnapshotCache:
    """What is served now. Only checked snapshots get in, all roles at once."""

    def __init__(self) -> None:
        self._snapshots: dict[Role, Snapshot] = {}
        self._watchers: dict[object, Callable[[], None]] = {}

    def publish(self, snapshots: Mapping[Role, Snapshot]) -> bool:
        """Replaces what is served, and wakes the watchers.

        Returns:
            Whether anything differs from what was served.

        Raises:
            InconsistentSnapshot: one of them is; what was served stays.
        """
        for snapshot in snapshots.values():
            snapshot.check()
        before = {role: snapshot.version for role, snapshot in self._snapshots.items()}
        after = {role: snapshot.version for role, snapshot in snapshots.items()}
        if before == after:
            return False
        self._snapshots = dict(snapshots)
        for wake in tuple(self._watchers.values()):
            wake()
        return True

    def get(self, role: Role) -> Snapshot | None:
        """Returns what Envoys of a role are to have, or None before the first publication."""
        return self._snapshots.get(role)

    @contextmanager
    def watching(self, wake: Callable[[], None]) -> Iterator[None]:
        """Calls `wake` after every change for as long as the block lasts. It must not block."""
        token = object()
        self._watchers[token] = wake
        try:
            yield
        finally:
            del self._watchers[token]
