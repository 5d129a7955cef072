"""What to do about a changed configuration while the mesh runs: a pure plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tiermesh.mesh.local.processes import ProcessSpec, Stage
from tiermesh.mesh.local.supervision import Changes

_PILLARS = (Stage.ENVOY, Stage.CONTROL, Stage.FOLLOWER)
"""Nothing serves while these restart, so they are left to a person."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in their order; names are of processes."""

    refused: tuple[str, ...] = ()
    """Processes that would have to be restarted by hand. Where there are any, nothing else is to be done."""
    start: tuple[str, ...] = ()
    """New ones. They are started first, so that added capacity is there before other capacity goes."""
    move: tuple[str, ...] = ()
    """Ones whose port changes. All are stopped before any is started, since one may take another's place."""
    restart: tuple[tuple[str, ...], ...] = ()
    """Ones with new settings, grouped by cluster: one replica at a time within a group."""
    stop: tuple[str, ...] = ()
    """Ones that are no longer wanted. Each is stopped once Envoy no longer sends it requests."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.refused or self.start or self.move or self.restart or self.stop)


def plan_changes(changes: Changes, before: Mapping[str, ProcessSpec], after: Mapping[str, ProcessSpec]) -> Plan:
    """Returns how to get from what runs to what is wanted.

    Args:
        changes: The differences, as supervisord sees them.
        before: What runs, by name, as far as it is known.
        after: What is wanted, by name.
    """
    refused = tuple(
        name
        for name in (*changes.changed, *changes.removed)
        if (after.get(name) or before.get(name)) is not None and _stage(name, before, after) in _PILLARS
    )
    if refused:
        return Plan(refused=refused)
    moved = tuple(name for name in changes.changed if name in before and before[name].address != after[name].address)
    return Plan(
        start=changes.added,
        move=moved,
        restart=_by_cluster((name for name in changes.changed if name not in moved), after),
        stop=changes.removed,
    )


def _stage(name: str, before: Mapping[str, ProcessSpec], after: Mapping[str, ProcessSpec]) -> Stage:
    return (after.get(name) or before[name]).stage


def _by_cluster(names: Iterable[str], specs: Mapping[str, ProcessSpec]) -> tuple[tuple[str, ...], ...]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(specs[name].cluster or name, []).append(name)
    return tuple(tuple(sorted(group)) for group in groups.values())
