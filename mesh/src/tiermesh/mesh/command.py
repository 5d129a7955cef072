"""`python -m tiermesh.mesh bootstrap`: prints what an Envoy is started with, or writes it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import yaml
from tiermesh.mesh.bootstrap import make_bootstrap
from tiermesh.mesh.role import ROLES, Role, has_ingress
from tiermesh.mesh.sds import make_secrets
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.config import ConfigError, TiermeshConfig, load_config
from tiermesh.shared.endpoints import metrics_endpoint
from tiermesh.shared.tls import INGRESS

_BOOTSTRAP = "envoy.yaml"


def print_bootstrap(argv: Sequence[str]) -> int:
    """Prints the bootstrap document of an Envoy as YAML, or writes it and the files that it refers to.

    Returns:
        Exit status: 0, or 2 for a wrong configuration or a certificate that cannot be used.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tiermesh.mesh bootstrap",
        epilog="examples:\n"
        "  python -m tiermesh.mesh bootstrap --config mesh/profiles/local.yaml > envoy.yaml\n"
        "  python -m tiermesh.mesh bootstrap --config tiermesh.yaml --role sidecar --service router --out /etc/envoy",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = os.environ.get("TIERMESH_CONFIG")
    parser.add_argument("--config", type=Path, default=default, help="configuration file (default: $TIERMESH_CONFIG)")
    parser.add_argument("--role", choices=ROLES, default="local", help="which listeners it gets (default: local)")
    parser.add_argument("--node-id", help="its name in the control plane's status (default: the role)")
    parser.add_argument("--protocol", choices=("delta", "sotw"), default="delta", help="variant of ADS")
    parser.add_argument("--service", help="whose sidecar it is, by which its certificate is checked, such as router")
    parser.add_argument(
        "--out",
        type=Path,
        help=f"folder to write {_BOOTSTRAP} to, and the files that say where certificates are; needed with TLS",
    )
    arguments = parser.parse_args(argv)
    if arguments.config is None:
        parser.error("--config is required: name the configuration file, or set TIERMESH_CONFIG")
    try:
        config = load_config(arguments.config.absolute(), os.environ)
        _check_certificates(config, role=arguments.role, service=arguments.service)
        _check_folder(config, arguments.role, arguments.out)
        document = make_bootstrap(
            config,
            role=arguments.role,
            node_id=arguments.node_id or arguments.role,
            protocol=arguments.protocol,
            metrics=metrics_endpoint(config, os.environ),
        )
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    text = yaml.safe_dump(document, sort_keys=False)
    if arguments.out is None:
        print(text, end="")
        return 0
    for name, secret in make_secrets(config, arguments.role).items():
        (arguments.out / f"{name}.yaml").write_text(yaml.safe_dump(secret, sort_keys=False), encoding="utf-8")
    (arguments.out / _BOOTSTRAP).write_text(text, encoding="utf-8")
    return 0


def _check_folder(config: TiermeshConfig, role: Role, out: Path | None) -> None:
    """Makes sure that Envoy finds its files where the control plane will tell it that they are.

    Raises:
        ConfigError: it would not.
    """
    place = config.tls.envoy_folder
    if make_secrets(config, role) and (out is None or out.absolute() != place):
        raise ConfigError(
            f"--out: with TLS, Envoy needs files in tls.envoy_folder: give --out {place}, or change that key"
        )


def _check_certificates(config: TiermeshConfig, *, role: Role, service: str | None) -> None:
    """Says here what is wrong with certificates: Envoy itself would wait for them without a word.

    Raises:
        ConfigError: one cannot be used.
    """
    if not config.tls.names_files:
        return
    from tiermesh.shared.tls.files import ingress_files, own_files  # noqa: PLC0415 -- imports a lot, for TLS alone

    now = datetime.fromtimestamp(SYSTEM_CLOCK.wall(), UTC)
    found = [own_files(config, INGRESS if role == "ingress" else service)]
    if has_ingress(role):
        found.append(ingress_files(config))
    for files in found:
        if files is not None:
            files.read(now)
