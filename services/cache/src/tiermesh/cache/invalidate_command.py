"""`tiermesh cache invalidate`: has the answer cache forget, for instance when what answers rest on has changed.

It asks through the mesh listener, as services do: the ingress has no such call, and no API key may make it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, NoReturn

import grpc
import typer
from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.shared.config import ConfigError
from tiermesh.shared.endpoints import CACHE, mesh_target
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.local_mesh import MeshNotFound, find_mesh
from tiermesh.shared.rpc import error_from_rpc

DEADLINE_S = 20.0
"""For each tenant. It waits until every replica has heard, about a second where one is held up."""
_FAILED, _WRONG, _NOT_RUNNING = 1, 2, 3
_FINGERPRINT_BYTES = 32


def invalidate(
    tenant: Annotated[
        str,
        typer.Option(help="Tenant whose answers to forget; may be left out where there is one.", show_default=False),
    ] = "",
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="Those of every tenant.")] = False,
    model: Annotated[str, typer.Option(help="Only answers of this model.", show_default=False)] = "",
    fingerprint: Annotated[
        str,
        typer.Option(
            help="Only the answer of this request, as `tiermesh explain --json` names it.", show_default=False
        ),
    ] = "",
    target: Annotated[
        str | None,
        typer.Option("--target", help="host:port of a cache elsewhere, such as a forwarded port.", show_default=False),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", "-p", help="Profile of the mesh that is meant, where several run.", show_default=False
        ),
    ] = None,
) -> None:
    """Forget answers: one, those of a model, or all of a tenant. Every replica has forgotten when this returns."""
    if model and fingerprint:
        _fail("say one of --model and --fingerprint", _WRONG)
    if tenant and all_tenants:
        _fail("say one of --tenant and --all-tenants", _WRONG)
    try:
        digest = read_fingerprint(fingerprint)
        where, tenants = find_cache(
            os.environ, target=target, profile=profile, tenant=tenant, all_tenants=all_tenants, model=model
        )
        for each in tenants:
            wanted = cache_pb2.InvalidateRequest(tenant=each, model=model, fingerprint=digest)
            typer.echo(_told(wanted, _ask(where, wanted)))
    except TiermeshError as error:
        _fail(f"{error.reason}: {error.message}\nWhat to do: {error.row.advice}", _FAILED)
    except ConfigError as error:
        _fail(str(error), _WRONG)
    except MeshNotFound as error:
        _fail(f"{error}, or name a cache elsewhere with --target", _NOT_RUNNING)


def read_fingerprint(text: str) -> bytes:
    """Returns the bytes of a fingerprint, none for none.

    Raises:
        ConfigError: it is not one.
    """
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b"?"
    if len(found) not in {0, _FINGERPRINT_BYTES}:
        raise ConfigError(
            f"--fingerprint: {text!r} is none; it has 64 hex digits, as `tiermesh explain --json` shows it"
        )
    return found


def find_cache(
    environ: Mapping[str, str], *, target: str | None, profile: str | None, tenant: str, all_tenants: bool, model: str
) -> tuple[str, Sequence[str]]:
    """Returns the gRPC target of the cache that is meant, and the tenants.

    Raises:
        MeshNotFound: none is named, and none runs here.
        ConfigError: which tenant is not clear, or the mesh has no such tenant or model.
    """
    if target:
        if not tenant:
            raise ConfigError("--tenant: is needed with --target; the tenants of a mesh elsewhere are not known here")
        return target, [tenant]
    config, _ = find_mesh(environ, profile).config_in_force()
    names = [each.name for each in config.tenants]
    if tenant and tenant not in names:
        raise ConfigError(f"--tenant: there is no tenant {tenant!r}; choose one of: {', '.join(names)}")
    models = [tier.public_model for tier in config.tiers]
    if model and model not in models:
        raise ConfigError(f"--model: there is no model {model!r}; choose one of: {', '.join(models)}")
    if not tenant and not all_tenants and len(names) > 1:
        raise ConfigError(f"--tenant: choose one of: {', '.join(names)}; or say --all-tenants")
    return mesh_target(config), [tenant] if tenant else names


def _ask(target: str, wanted: cache_pb2.InvalidateRequest) -> int:
    # Never through a proxy: the cache is on this machine or behind a port that was forwarded to it.
    options = [("grpc.enable_http_proxy", 0), ("grpc.default_authority", CACHE)]
    with grpc.insecure_channel(target, options=options) as channel:
        try:
            answer: cache_pb2.InvalidateResponse = cache_pb2_grpc.CacheServiceStub(channel).Invalidate(
                wanted, timeout=DEADLINE_S
            )
        except grpc.RpcError as error:
            raise error_from_rpc(error) from None
        return answer.removed_count


def _told(wanted: cache_pb2.InvalidateRequest, removed: int) -> str:
    if wanted.model:
        return f"{wanted.tenant}: no answer of {wanted.model} is given any more"
    if wanted.fingerprint:
        return f"{wanted.tenant}: {'forgotten' if removed else 'there was no such answer'}"
    return f"{wanted.tenant}: no answer from before is given any more ({removed} removed)"


def _fail(message: str, status: int) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(status)
