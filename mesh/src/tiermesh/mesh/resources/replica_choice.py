"""Calls to one replica rather than to any: how a router hears of the load of each.

The caller names the replica by its address. It gets that one or UNAVAILABLE, never another, and only if
Envoy takes it for healthy.
"""

from __future__ import annotations

from typing import Any

from envoy.extensions.filters.http.stateful_session.v3 import stateful_session_pb2
from envoy.extensions.http.stateful_session.header.v3 import header_pb2
from tiermesh.mesh.resources.message import typed
from tiermesh.shared.headers import REPLICA

REPLICA_FILTER = "envoy.filters.http.stateful_session"


def make_replica_filter() -> dict[str, Any]:
    """Returns the filter, which does nothing but where a route says so."""
    return {"name": REPLICA_FILTER, "typed_config": typed(stateful_session_pb2.StatefulSession, {})}


def make_replica_choice() -> dict[str, Any]:
    """Returns a route's part of the filter: calls go to the replica that they name, if they name one."""
    by_header = typed(header_pb2.HeaderBasedSessionState, {"name": REPLICA})
    session = {
        "session_state": {"name": "envoy.http.stateful_session.header", "typed_config": by_header},
        "strict": True,
    }
    return typed(stateful_session_pb2.StatefulSessionPerRoute, {"stateful_session": session})
