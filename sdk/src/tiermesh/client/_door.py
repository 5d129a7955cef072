"""Where the mesh is and how it is spoken to, for both clients."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from tiermesh.client._deadlines import Deadlines
from tiermesh.shared.local_mesh import api_key, find_mesh
from tiermesh.shared.telemetry import inject_context

_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
_EVERYWHERE = {"0.0.0.0", "::"}

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Door:
    """A mesh that runs on this machine."""

    target: str
    api_key: str | None
    deadlines: Deadlines


def find_door(profile: str | None = None, environ: Mapping[str, str] = os.environ) -> Door:
    """Returns the mesh on this machine: its address, its key, and its lanes.

    Raises:
        MeshNotFound: there is none, or several; the message says what to do.
        ConfigError: its configuration has become wrong.
    """
    mesh = find_mesh(environ, profile)
    config = mesh.load_config()
    host = "127.0.0.1" if config.network.bind in _EVERYWHERE else config.network.bind
    deadlines = Deadlines(config.lanes, longest_s=config.deadlines.max_ms / 1000)
    return Door(f"{host}:{config.network.ingress_port}", api_key(mesh, config, environ), deadlines)


def checked_target(target: str) -> str:
    """Returns a target that gRPC can have meant.

    Raises:
        ValueError: it is a URL, of which gRPC would say that its name cannot be looked up.
    """
    scheme, separator, rest = target.partition("://")
    if separator and scheme in {"http", "https"}:
        secure = ", and tls=True" if scheme == "https" else ""
        raise ValueError(f"target: {target} is a URL; write host and port, {rest.split('/')[0]}{secure}")
    return target


def channel_options(target: str) -> tuple[tuple[str, Any], ...]:
    """Returns the options of a channel."""
    options: tuple[tuple[str, Any], ...] = (
        ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
        # gRPC's own retries know neither our tokens nor retry-after.
        ("grpc.enable_retries", 0),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        # A restarted mesh is found again within a second instead of two minutes.
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 1_000),
        # A connection of its own: gRPC would hand on that of another client, which may be closing just now.
        ("grpc.use_local_subchannel_pool", 1),
    )
    if target.startswith(("127.", "localhost", "[::1]")):
        # A proxy cannot reach this machine's own addresses.
        options = (*options, ("grpc.enable_http_proxy", 0))
    return options


def call_metadata(api_key: str | None, traceparent: str | None) -> Metadata:
    """Returns the metadata of a call: who asks, and within which trace."""
    metadata: Metadata = (("authorization", f"Bearer {api_key}"),) if api_key else ()
    return (*metadata, ("traceparent", traceparent)) if traceparent else (*metadata, *inject_context())


def channel_credentials(tls: bool | grpc.ChannelCredentials) -> grpc.ChannelCredentials | None:
    """Returns the credentials of a channel; None for one in the clear."""
    if isinstance(tls, bool):
        return grpc.ssl_channel_credentials() if tls else None
    return tls
