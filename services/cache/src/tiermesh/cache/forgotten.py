"""What this replica knows to be forgotten, whatever the store says.

A store that fails over may have lost its last writes: a generation that was replaced is back, or an answer is back in the
place of its tombstone. Nothing of it may be given. Invalidations name what they put an end to, all replicas hear
of it before an invalidation is confirmed, and each remembers it:

- a generation that was replaced never counts again. They are random, so none comes back but by a loss;
- an answer that was forgotten by hand leaves its mark here, too. What lies in its place counts only if it bears that mark:
  it was begun after.

Neither needs an order of what was said, nor clocks that agree. A replica that finds such a thing repairs the store.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, KeysView
from typing import TypeVar

from tiermesh.cache.ports import Change

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")
_DIGEST_BYTES = 8
MAX_REMEMBERED = 10_000
"""Of either kind; as many changes as the log keeps. A failover loses the last few."""


class Forgotten:
    """Remembers what was invalidated last.

    Args:
        max_remembered: Most generations, and most single answers.
        is_complete: Whether nothing was invalidated before.
    """

    def __init__(self, *, max_remembered: int = MAX_REMEMBERED, is_complete: bool = True) -> None:
        self._max = max_remembered
        self.is_complete = is_complete
        """Whether all that was invalidated before this replica came has been heard of; until then nothing is given."""
        self._ended: OrderedDict[bytes, None] = OrderedDict()
        self._marks: OrderedDict[bytes, bytes] = OrderedDict()

    def note(self, change: Change) -> None:
        """Takes note of what an invalidation put an end to."""
        if change.ended:
            self._put(self._ended, change.ended, None)
        if change.mark:
            self._put(self._marks, change.key, change.mark)

    def has_ended(self, generation: bytes) -> bool:
        """Tells whether a generation was replaced."""
        return bool(self._ended) and ended_name(generation) in self._ended

    @property
    def ended_names(self) -> KeysView[bytes]:
        """Names of generations that were replaced, the latest last."""
        return self._ended.keys()

    def mark_of(self, entry_key: bytes) -> bytes | None:
        """Returns the mark of an answer's last invalidation by hand; None where none is remembered."""
        return self._marks.get(entry_key)

    def _put(self, remembered: OrderedDict[_K, _V], key: _K, value: _V) -> None:
        remembered[key] = value
        remembered.move_to_end(key)
        if len(remembered) > self._max:
            remembered.popitem(last=False)


def ended_name(generation: bytes) -> bytes:
    """Returns what a generation is named by once it was replaced, 8 bytes."""
    return hashlib.blake2b(generation, digest_size=_DIGEST_BYTES).digest()
