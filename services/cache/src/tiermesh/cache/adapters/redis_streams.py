"""Entries of Redis streams, as the client hands them over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Entry = tuple[bytes, Mapping[bytes, bytes]]
"""Its position, and its fields."""


def streams_of(found: Any) -> dict[bytes, Any]:
    """Returns the streams of a reply to XREAD, by their keys; none where nothing came."""
    return dict(found.items() if isinstance(found, dict) else found or ())


def entries_of(stream: Any) -> list[Entry]:
    """Returns the entries of one stream."""
    if not stream:
        return []
    # RESP2 gives a list of entries; some versions of the client wrap it once more.
    entries = stream[0] if len(stream) == 1 and isinstance(stream[0], list) else stream
    return [(bytes(position), fields) for position, fields in entries if fields]
