"""Tells the bootstrap what a configuration needs beyond the base environment.

python -m tiermesh.mesh.local.needs --config mesh/profiles/local.yaml
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from tiermesh.shared.config import ConfigError, TiermeshConfig, load_config


def needs_of(config: TiermeshConfig) -> dict[str, Any]:
    """Returns whether any tier runs vLLM, which packaged models those tiers serve, and whether the cache compares."""
    served = [tier.model for tier in config.tiers if tier.backend == "vllm"]
    return {
        "engine": bool(served),
        "models": sorted({model for model in served if model.startswith("package:")}),
        "embedder": config.cache.enabled and config.cache.semantic_enabled,
    }


def main() -> int:
    """Prints the needs as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tiermesh.mesh.local.needs", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="configuration file")
    try:
        print(json.dumps(needs_of(load_config(parser.parse_args().config.absolute(), os.environ))))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
