"""How every service process starts: arguments and environment are read once, here."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop
from opentelemetry.metrics import Meter
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.config import ConfigError, TiermeshConfig, load_or_last_good
from tiermesh.shared.endpoints import CONTROL_PLANE, metrics_endpoint, replica_endpoint, span_endpoint
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.rpc import ServerTls
from tiermesh.shared.telemetry import Tracing, configure_logging, get_logger, open_meter, open_tracing
from tiermesh.shared.tls import callers_of, members_of
from tiermesh.shared.tls.metrics import watch_certificate

if TYPE_CHECKING:
    from tiermesh.shared.tls.files import FollowedFiles


@dataclass(frozen=True)
class Process:
    """What a service process was started with."""

    config: TiermeshConfig
    config_path: Path
    environ: Mapping[str, str]
    cluster: str
    """Cluster this process is a replica of, such as `engine-l1`."""
    replica: int
    address: str
    """Where to listen, `host:port`."""
    state: Path
    """Folder for keys, sockets and other local state."""
    probe_address: str | None = None
    """Where to answer health checks in plain, besides, when `address` takes mutual TLS alone."""

    @property
    def instance(self) -> str:
        """Name in logs and traces, such as `engine-l1-0`."""
        return f"{self.cluster}-{self.replica}"

    def open_tracing(self, service: str) -> AbstractAsyncContextManager[Tracing]:
        """Opens the tracer of this process; it records nothing where nobody receives spans.

        Args:
            service: `service.name`, such as `tiermesh-router`.
        """
        return open_tracing(
            service,
            instance=self.instance,
            endpoint=span_endpoint(self.config, self.environ),
            sample_ratio=self.config.tracing.sample_ratio,
        )

    @cached_property
    def _files(self) -> FollowedFiles | None:
        if not self.config.tls.mutual:
            return None
        from tiermesh.shared.tls.files import FollowedFiles, own_files  # noqa: PLC0415 -- imports a lot, for TLS alone

        files = own_files(self.config, self.cluster)
        assert files is not None
        return FollowedFiles(files, SYSTEM_CLOCK)

    def server_tls(self) -> ServerTls | None:
        """Returns what this process's server needs to take mutual TLS alone, or None where it is to take plain HTTP/2.

        Raises:
            ConfigError: a certificate, key or authority cannot be used.
        """
        tls = self.config.tls
        if not (tls.control_plane if self.cluster == CONTROL_PLANE else tls.mesh):
            return None
        files = self._files
        assert files is not None
        return ServerTls(
            lambda: files.newest()[0],
            callers_of(self.config, self.cluster),
            members_of(self.config),
            self.probe_address,
        )

    @contextmanager
    def open_meter(self, service: str) -> Iterator[Meter | None]:
        """Opens the meter of this process, or none where the configuration names no receiver of metrics.

        Args:
            service: `service.name`, such as `tiermesh-router`.

        Raises:
            ConfigError: the receiver is not a URL, or a certificate cannot be used.
        """
        endpoint = metrics_endpoint(self.config, self.environ)
        interval_s = self.config.metrics.interval_s
        with open_meter(service, instance=self.instance, endpoint=endpoint, interval_s=interval_s) as meter:
            if meter is not None and self._files is not None:
                watch_certificate(meter, self._files.days_left)
            yield meter


YOUNG_OBJECTS = 20_000
"""New objects after which the collector looks at the young ones; Python's own number is 700."""


def _tune_gc() -> None:
    """Makes the garbage collector look less often, and not at what lives as long as the process.

    A request makes some thousand objects, nearly all of which go with their last reference.
    """
    gc.collect()
    # Modules, classes and the configuration.
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def main(
    program: str,
    run: Callable[[Process], Coroutine[Any, Any, None]],
    *,
    cluster: str | None = None,
    argv: Sequence[str] | None = None,
) -> int:
    """Parses the command line, reads the configuration, and runs a service on uvloop.

    Args:
        program: Import name, such as `tiermesh.router`.
        run: The service; it returns when it has drained.
        cluster: The cluster, or None for engines, which take `--tier`.
        argv: Arguments; the default is the process's own.

    Returns:
        Exit status: 0 after a drain, 1 for a failure that the log names, 2 for a wrong configuration.
    """
    example = f"example:\n  python -m {program} --config mesh/profiles/local.yaml" + ("" if cluster else " --tier l1")
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", epilog=example, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--config",
        type=Path,
        default=os.environ.get("TIERMESH_CONFIG"),
        help="configuration file (default: $TIERMESH_CONFIG)",
    )
    parser.add_argument("--replica", type=int, default=0, help="number of this replica, from 0 (default: 0)")
    parser.add_argument("--listen", help="host:port to listen on (default: the replica's place in the port plan)")
    parser.add_argument(
        "--probe-listen",
        metavar="HOST:PORT",
        help="where to answer health checks, and nothing else, without TLS; only used with mutual TLS",
    )
    parser.add_argument(
        "--state",
        type=Path,
        default=os.environ.get("TIERMESH_STATE", ".tiermesh"),
        help="state folder (default: $TIERMESH_STATE or .tiermesh)",
    )
    if cluster is None:
        parser.add_argument("--tier", required=True, help="tier to serve, by its name in the configuration")
    arguments = parser.parse_args(argv)
    if arguments.config is None:
        parser.error("--config is required: name the configuration file, or set TIERMESH_CONFIG")
    try:
        config, wrong = load_or_last_good(arguments.config.absolute(), os.environ, arguments.state)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    if cluster is None:
        known = [tier.name for tier in config.tiers]
        if arguments.tier not in known:
            parser.error(f"--tier {arguments.tier}: no such tier in {arguments.config}; it has: {', '.join(known)}")
        cluster = f"engine-{arguments.tier}"
    address = arguments.listen or str(replica_endpoint(config, cluster, arguments.replica))
    process = Process(
        config,
        arguments.config.absolute(),
        dict(os.environ),
        cluster,
        arguments.replica,
        address,
        arguments.state.resolve(),
        arguments.probe_listen,
    )
    configure_logging(process.instance, level=config.logging.level)
    if wrong is not None:
        get_logger(program).error("starting with the configuration accepted last; the file is wrong", error=str(wrong))
    _tune_gc()
    try:
        uvloop.run(run(process))
    except (OSError, ConfigError, TiermeshError) as error:
        get_logger(program).error("cannot run", error=str(error))
        return 1
    return 0
