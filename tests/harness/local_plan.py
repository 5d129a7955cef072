"""A plan of processes for tests that start none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tiermesh.mesh.local.installation import Installation
from tiermesh.mesh.local.layout import StateLayout
from tiermesh.mesh.local.processes import ProcessSpec, plan_processes
from tiermesh.shared.config import TiermeshConfig, parse_config

INSTALLATION = Installation(
    python=Path("/base/bin/python"),
    envoy=Path("/base/bin/envoy"),
    supervisord=Path("/base/bin/supervisord"),
    redis_server=Path("/base/redis-server"),
    engine_python=Path("/engine/bin/python"),
    engine_pythonpath="/src/a:/src/b",
)
RULES = {"name": "l0", "backend": "rules"}
VLLM = {"name": "l1", "backend": "vllm", "model": "package:x", "cpu_cores": "0", "kv_cache_gib": 2}


def config_of(**changes: Any) -> TiermeshConfig:
    """Returns a configuration with a rules tier `l0` and a vLLM tier `l1`, with changes."""
    raw = {"tenants": [{"name": "a", "key_file": "keys/a"}], "tiers": [RULES, VLLM], **changes}
    return parse_config(raw, Path("/c.yaml"))


def plan(environ: dict[str, str] | None = None, **changes: Any) -> dict[str, ProcessSpec]:
    """Returns the processes of that configuration, by name."""
    specs = plan_processes(
        config_of(**changes),
        config_path=Path("/etc/mesh.yaml"),
        layout=StateLayout(Path("/state")),
        installation=INSTALLATION,
        environ=environ or {},
    )
    return {spec.name: spec for spec in specs}
