"""Writes what the chart takes from elsewhere in the repository.

- values.schema.json: values.schema.yaml beside this file, and the sections of tiermesh.yaml from the code;
- files/rules.yaml: the rules of the local profile. A chart cannot reach files outside of its folder.

python helm/generate.py           write them
python helm/generate.py --check   exit 1 if they are not what would be written
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from tiermesh.shared.config import (
    BalanceConfig,
    BanditConfig,
    BreakersConfig,
    CacheConfig,
    ClassifierConfig,
    DeadlineConfig,
    HealthConfig,
    LimitsConfig,
    LoggingConfig,
    MetricsConfig,
    OutcomesConfig,
    RouterConfig,
    TierConfig,
    TracingConfig,
)

HERE = Path(__file__).parent
SOURCE = HERE / "values.schema.yaml"
CHART = HERE / "tiermesh"
RULES = HERE.parent / "mesh" / "profiles" / "rules.yaml"

SECTIONS: Mapping[str, tuple[type[Any], frozenset[str]]] = {
    "limits": (LimitsConfig, frozenset()),
    "deadlines": (DeadlineConfig, frozenset()),
    "balance": (BalanceConfig, frozenset()),
    "breakers": (BreakersConfig, frozenset()),
    "health": (HealthConfig, frozenset()),
    "router": (RouterConfig, frozenset({"replicas"})),
    "classifier": (ClassifierConfig, frozenset({"replicas"})),
    "cache": (CacheConfig, frozenset({"replicas", "redis_url", "max_memory_mb"})),
    "outcomes": (OutcomesConfig, frozenset({"drift_reference"})),
    "bandit": (BanditConfig, frozenset({"report"})),
    "tier": (TierConfig, frozenset({"replicas", "name"})),
    "tracing": (TracingConfig, frozenset({"kept_traces"})),
    "metrics": (MetricsConfig, frozenset()),
    "logging": (LoggingConfig, frozenset()),
}
"""Section, its class, and the keys that the chart's own values stand for or that mean nothing on Kubernetes."""

_NOISE = frozenset({"title", "default", "description"})


def make_schema() -> str:
    """Returns the text of values.schema.json."""
    source = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    fragments = source.pop("fragments")
    schema = _merge(source, fragments)
    for name, (section, without) in SECTIONS.items():
        schema["definitions"][name] = make_section(section, without)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def make_section(section: type[Any], without: frozenset[str]) -> dict[str, Any]:
    """Returns the JSON schema of a section of tiermesh.yaml, without some of its keys.

    Raises:
        ValueError: a key to be left out is not there, or the section refers to another, which this does not follow.
    """
    schema = section.model_json_schema()
    unknown = without - set(schema["properties"])
    if unknown or "$defs" in schema:
        raise ValueError(f"{section.__name__}: cannot be written ({', '.join(sorted(unknown)) or 'has references'})")
    schema["properties"] = {key: _plain(value) for key, value in schema["properties"].items() if key not in without}
    schema["required"] = [key for key in schema.get("required", ()) if key not in without]
    return {key: value for key, value in schema.items() if key not in _NOISE and value != []}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key not in _NOISE}
    return value


def _merge(value: Any, fragments: Mapping[str, Any]) -> Any:
    """Replaces each `$merge: name` by the keys of that fragment."""
    if isinstance(value, list):
        return [_merge(item, fragments) for item in value]
    if not isinstance(value, dict):
        return value
    merged = {key: _merge(item, fragments) for key, item in value.items() if key != "$merge"}
    return merged | _merge(fragments[value["$merge"]], fragments) if "$merge" in value else merged


def outputs() -> dict[Path, str]:
    """Returns every file that is written, with its text."""
    return {
        CHART / "values.schema.json": make_schema(),
        CHART / "files" / "rules.yaml": RULES.read_text(encoding="utf-8"),
    }


def main(arguments: list[str]) -> int:
    """Writes the files, or with `--check` compares them; returns the exit status."""
    stale = [path for path, text in outputs().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in arguments:
        for path in stale:
            print(f"{path.relative_to(HERE.parent)} is out of date: run python helm/generate.py", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.write_text(outputs()[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
