"""What one stream wants of one type: named resources, all of them, or nothing yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tiermesh.mesh.snapshot import Resource

WILDCARD = "*"


@dataclass(frozen=True, slots=True)
class Interest:
    """Names asked for, and whether all others are wanted too."""

    names: frozenset[str] = frozenset()
    wildcard: bool = False
    named_before: bool = False
    """Whether names were ever given. An empty list then means "nothing more", where at first it means "everything"."""

    def replaced(self, names: Iterable[str]) -> Interest:
        """Returns the interest after a state-of-the-world request, which lists all names every time."""
        given = frozenset(names)
        if not given and not self.named_before:
            return Interest(wildcard=True)
        return Interest(given - {WILDCARD}, WILDCARD in given, named_before=True)

    def changed(self, subscribe: Iterable[str], unsubscribe: Iterable[str], *, first: bool) -> Interest:
        """Returns the interest after a delta request, which lists changes only."""
        added, removed = frozenset(subscribe), frozenset(unsubscribe)
        if first and not added:
            return Interest(wildcard=True)
        wildcard = (self.wildcard or WILDCARD in added) and WILDCARD not in removed
        return Interest((self.names | added) - removed - {WILDCARD}, wildcard, self.named_before or bool(added))

    def wants(self, name: str) -> bool:
        """Returns whether a resource of that name is wanted."""
        return self.wildcard or name in self.names

    def select(self, resources: Mapping[str, Resource]) -> dict[str, Resource]:
        """Returns the wanted ones."""
        return {name: resource for name, resource in resources.items() if self.wants(name)}
