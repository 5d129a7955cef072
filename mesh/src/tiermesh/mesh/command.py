"""`python -m tiermesh.mesh bootstrap`: prints what an Envoy is started with."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml
from tiermesh.mesh.bootstrap import make_bootstrap
from tiermesh.mesh.role import ROLES
from tiermesh.shared.config import ConfigError, load_config
from tiermesh.shared.endpoints import metrics_endpoint


def print_bootstrap(argv: Sequence[str]) -> int:
    """Prints the bootstrap document of an Envoy as YAML.

    Returns:
        Exit status: 0, or 2 for a wrong configuration.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tiermesh.mesh bootstrap",
        epilog="example:\n  python -m tiermesh.mesh bootstrap --config mesh/profiles/local.yaml > envoy.yaml",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = os.environ.get("TIERMESH_CONFIG")
    parser.add_argument("--config", type=Path, default=default, help="configuration file (default: $TIERMESH_CONFIG)")
    parser.add_argument("--role", choices=ROLES, default="local", help="which listeners it gets (default: local)")
    parser.add_argument("--node-id", help="its name in the control plane's status (default: the role)")
    parser.add_argument("--protocol", choices=("delta", "sotw"), default="delta", help="variant of ADS")
    arguments = parser.parse_args(argv)
    if arguments.config is None:
        parser.error("--config is required: name the configuration file, or set TIERMESH_CONFIG")
    try:
        config = load_config(arguments.config.absolute(), os.environ)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    document = make_bootstrap(
        config,
        role=arguments.role,
        node_id=arguments.node_id or arguments.role,
        protocol=arguments.protocol,
        metrics=metrics_endpoint(config, os.environ),
    )
    print(yaml.safe_dump(document, sort_keys=False), end="")
    return 0
