"""Where the mesh is that a command talks to, and how failures are told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import grpc
import typer
from tiermesh.client._door import checked_target
from tiermesh.shared.config import ConfigError
from tiermesh.shared.endpoints import TRACES, replica_endpoint
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.local_mesh import MeshNotFound, api_key, find_mesh
from tiermesh.shared.rpc import open_channel

FAILED, WRONG, NOT_RUNNING, INTERRUPTED = 1, 2, 3, 130

Profile = Annotated[
    str | None,
    typer.Option("--profile", "-p", help="Profile of the mesh that is meant, where several run.", show_default=False),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        envvar="TIERMESH_TARGET",
        help="host:port of a mesh elsewhere; its key comes from TIERMESH_API_KEY.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Door:
    """How to reach a mesh."""

    target: str
    key: str | None

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The gRPC metadata that authenticates."""
        return (("authorization", f"Bearer {self.key}"),) if self.key else ()


def find_ingress(environ: Mapping[str, str], *, target: str | None, profile: str | None) -> Door:
    """Returns the ingress that is meant: the one named, or that of the mesh on this machine.

    Raises:
        MeshNotFound: none is named, and none runs here.
        ConfigError: what is named is a URL.
    """
    if target:
        return Door(_named(target), environ.get("TIERMESH_API_KEY"))
    mesh = find_mesh(environ, profile)
    config, _ = mesh.config_in_force()
    return Door(f"{reachable(config.network.bind)}:{config.network.ingress_port}", api_key(mesh, config, environ))


def find_trace_store(environ: Mapping[str, str], *, target: str | None, profile: str | None) -> Door:
    """Returns the trace store that is meant.

    Raises:
        MeshNotFound: none is named, and none runs here.
        ConfigError: what is named is a URL.
    """
    if target:
        return Door(_named(target), None)
    config, _ = find_mesh(environ, profile).config_in_force()
    endpoint = replica_endpoint(config, TRACES, 0)
    return Door(f"{reachable(endpoint.host)}:{endpoint.port}", None)


def _named(target: str) -> str:
    try:
        return checked_target(target)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def reachable(bind: str) -> str:
    """Returns the host by which this machine reaches a listener."""
    return "127.0.0.1" if bind in {"0.0.0.0", "::"} else bind


@asynccontextmanager
async def connect(door: Door) -> AsyncIterator[grpc.aio.Channel]:
    """Opens a channel to a mesh."""
    async with open_channel(door.target) as channel:
        yield channel


@contextmanager
def explained() -> Iterator[None]:
    """Prints a failure as a person should read it, and turns it into an exit status."""
    try:
        yield
    except TiermeshError as error:
        named = error.field and not error.message.startswith(f"{error.field}:")
        where = f" ({error.field})" if named else ""
        typer.echo(f"{error.reason}{where}: {error.message}\nWhat to do: {error.row.advice}", err=True)
        raise typer.Exit(FAILED) from None
    except ConfigError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(WRONG) from None
    except MeshNotFound as error:
        typer.echo(f"{error}, or name one elsewhere with --target", err=True)
        raise typer.Exit(NOT_RUNNING) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine; calls to this machine never go through a proxy."""
    exempt = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    os.environ["no_proxy"] = ",".join(filter(None, [exempt, "127.0.0.1,localhost"]))
    return asyncio.run(work)
