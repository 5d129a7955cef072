"""The generations that this replica has seen last."""

from __future__ import annotations

from tiermesh.cache.tags import is_generation

_MAX_TENANTS = 4096


class LastGenerations:
    """What to make stored values under without asking first.

    It may be out of date: the store checks it when it writes, and the token of an answer tells whether it was begun
    under it.
    """

    def __init__(self) -> None:
        self._seen: dict[bytes, bytes] = {}

    def note(self, key: bytes, generation: bytes | None) -> None:
        """Takes note of a generation that was read, by its key."""
        if generation is None or not is_generation(generation):
            return
        if len(self._seen) >= _MAX_TENANTS and key not in self._seen:
            self._seen.clear()
        self._seen[key] = generation

    def last(self, key: bytes) -> bytes | None:
        """Returns the generation that was seen last; None for a tenant that has not been seen."""
        return self._seen.get(key)
