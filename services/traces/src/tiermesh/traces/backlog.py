"""What still has to be forwarded, within bounds.

Export requests are kept as bytes. Protobuf messages of one repeated field can be joined by
writing them one after the other, so many small requests leave as one.
"""

from __future__ import annotations

from collections import deque


class Backlog:
    """A queue that drops its oldest requests when it is full: news is worth more than history.

    Args:
        max_bytes: Most bytes kept.
        batch_bytes: Bytes after which a batch is not extended.
    """

    def __init__(self, *, max_bytes: int = 32 * 1024 * 1024, batch_bytes: int = 1024 * 1024) -> None:
        self._max_bytes = max_bytes
        self._batch_bytes = batch_bytes
        self._requests: deque[bytes] = deque()
        self._size_bytes = 0
        self.dropped_requests = 0
        """Requests dropped so far."""

    @property
    def size_bytes(self) -> int:
        """Bytes kept."""
        return self._size_bytes

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request: bytes) -> None:
        """Keeps a request, and drops the oldest ones that no longer fit."""
        self._requests.append(request)
        self._size_bytes += len(request)
        while self._size_bytes > self._max_bytes:
            self._size_bytes -= len(self._requests.popleft())
            self.dropped_requests += 1

    def take(self) -> bytes:
        """Removes the oldest requests and returns them as one; empty where there are none."""
        batch: list[bytes] = []
        size = 0
        while self._requests and (not batch or size + len(self._requests[0]) <= self._batch_bytes):
            request = self._requests.popleft()
            batch.append(request)
            size += len(request)
        self._size_bytes -= size
        return b"".join(batch)
