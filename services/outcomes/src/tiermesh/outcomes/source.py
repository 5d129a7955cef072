"""Where commands get records from: files that were exported, or the log of a running mesh."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
from tiermesh.api.outcome.v1 import outcome_pb2, outcome_pb2_grpc, record_pb2
from tiermesh.shared.config import ConfigError
from tiermesh.shared.endpoints import OUTCOMES, replica_endpoint
from tiermesh.shared.local_mesh import find_mesh
from tiermesh.shared.outcomes import OutcomeError, read_outcomes
from tiermesh.shared.rpc import MAX_MESSAGE_BYTES, error_from_rpc

DEADLINE_S = 600.0
"""Seconds that reading a whole log may take."""
_AGE = re.compile(r"(\d+)\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records a command reads."""

    since: datetime | None = None
    until: datetime | None = None
    tenant: str = ""
    with_feedback: bool = False
    with_text: bool = False
    limit: int = 0
    """Most records, the newest of them; 0 for all."""


def parse_time(text: str, *, now: datetime) -> datetime:
    """Returns a time given as an age, such as `7d` or `90m`, or as ISO 8601; without a zone it is UTC.

    Raises:
        ValueError: it is neither.
    """
    if match := _AGE.fullmatch(text.strip()):
        return now - timedelta(**{_UNITS[match[2]]: int(match[1])})
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is no time: write an age such as 7d or 12h, or a date such as 2026-11-30") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def find_log(environ: Mapping[str, str], *, target: str | None, profile: str | None) -> str:
    """Returns the gRPC target of the log that is meant: the one named, or that of the mesh on this machine.

    Raises:
        MeshNotFound: none is named, and none runs here.
        ConfigError: the mesh keeps no log.
    """
    if target:
        return target
    config, _ = find_mesh(environ, profile).config_in_force()
    if not config.outcomes.enabled:
        raise ConfigError("this mesh keeps no log of outcomes; set outcomes.enabled: true in its configuration")
    endpoint = replica_endpoint(config, OUTCOMES, 0)
    host = "127.0.0.1" if endpoint.host in {"0.0.0.0", "::"} else endpoint.host
    return f"{host}:{endpoint.port}"


def read_files(paths: Sequence[Path], wanted: Wanted) -> Iterator[record_pb2.Outcome]:
    """Yields the wanted records of exported files, file by file.

    Raises:
        OutcomeError: a file cannot be read, or a line of it is no outcome.
    """
    kept: list[record_pb2.Outcome] = []
    for path in paths:
        try:
            with path.open(encoding="utf-8") as lines:
                for outcome in read_outcomes(lines):
                    if not _is_wanted(outcome, wanted):
                        continue
                    if wanted.limit:
                        kept.append(outcome)
                    else:
                        yield outcome
        except OutcomeError as error:
            raise OutcomeError(f"{path}: {error}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise OutcomeError(f"{path}: cannot be read: {error}") from None
    kept.sort(key=lambda outcome: outcome.arrived.ToNanoseconds())
    yield from kept[-wanted.limit :] if wanted.limit else ()


def read_mesh(target: str, wanted: Wanted) -> Iterator[record_pb2.Outcome]:
    """Yields the wanted records of a running log, oldest first.

    Raises:
        TiermeshError: the log does not answer.
    """
    request = outcome_pb2.ListOutcomesRequest(
        tenant=wanted.tenant, with_feedback=wanted.with_feedback, with_text=wanted.with_text, limit=wanted.limit
    )
    if wanted.since is not None:
        request.since.FromDatetime(wanted.since)
    if wanted.until is not None:
        request.until.FromDatetime(wanted.until)
    with _open(target) as channel:
        pages = outcome_pb2_grpc.OutcomeServiceStub(channel).ListOutcomes(request, timeout=DEADLINE_S)
        try:
            for page in pages:
                yield from page.outcomes
        except grpc.RpcError as error:
            raise error_from_rpc(error) from None
        finally:
            pages.cancel()


def read_status(target: str, *, timeout_s: float = 20.0) -> outcome_pb2.GetLogStatusResponse:
    """Returns how a running log fares.

    Raises:
        TiermeshError: the log does not answer.
    """
    with _open(target) as channel:
        try:
            status: outcome_pb2.GetLogStatusResponse = outcome_pb2_grpc.OutcomeServiceStub(channel).GetLogStatus(
                outcome_pb2.GetLogStatusRequest(), timeout=timeout_s
            )
        except grpc.RpcError as error:
            raise error_from_rpc(error) from None
        return status


def _open(target: str) -> grpc.Channel:
    # Never through a proxy: the log is on this machine or behind a port that was forwarded to it.
    options = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.enable_http_proxy", 0),
        # By which an Envoy finds it, where the port is that of a sidecar: the way to a log that takes TLS alone.
        ("grpc.default_authority", OUTCOMES),
    ]
    return grpc.insecure_channel(target, options=options)


def _is_wanted(outcome: record_pb2.Outcome, wanted: Wanted) -> bool:
    arrived = outcome.arrived.ToDatetime(UTC)
    return (
        (wanted.since is None or arrived >= wanted.since)
        and (wanted.until is None or arrived < wanted.until)
        and (not wanted.tenant or outcome.tenant == wanted.tenant)
        and (not wanted.with_feedback or len(outcome.feedback) > 0)
    )
