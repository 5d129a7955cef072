"""What the trace store needs of the world."""

from __future__ import annotations

from typing import Protocol


class CollectorUnavailable(Exception):
    """The collector did not take a request and may take it later."""


class CollectorRefused(Exception):
    """The collector will never take this request."""


class Collector(Protocol):
    """The operator's own place for traces."""

    async def export(self, request: bytes) -> None:
        """Delivers a serialized ExportTraceServiceRequest.

        Raises:
            CollectorUnavailable: trying again can help.
            CollectorRefused: trying again cannot help.
        """
        ...
