"""Reads the configuration: a YAML file, what it extends, and overrides from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from tiermesh.shared.config._bandit_report import why_not_live
from tiermesh.shared.config._schema import TiermeshConfig
from tiermesh.shared.config._tls import TlsConfig

ENV_PREFIX = "TIERMESH__"
"""`TIERMESH__NETWORK__INGRESS_PORT=9090` overrides `network.ingress_port`."""


class ConfigError(Exception):
    """The configuration cannot be used; the message names file, key and allowed values."""


def load_config(path: Path, environ: Mapping[str, str] | None = None) -> TiermeshConfig:
    """Reads and checks a configuration file.

    Args:
        path: YAML file. Its `extends:` names a file beside it whose values it overrides; lists of
            named objects are merged by `name`.
        environ: Overrides, such as `os.environ`; see `ENV_PREFIX`.

    Raises:
        ConfigError: the file is missing, is not YAML, or has a wrong value.
    """
    return parse_config(_read(path, ()), path, environ or {})


def parse_config(raw: Mapping[str, Any], path: Path, environ: Mapping[str, str] | None = None) -> TiermeshConfig:
    """Checks values that have been read already; `path` is for messages and relative files.

    Raises:
        ConfigError: a value is wrong.
    """
    merged = _overlay(raw, environ or {})
    try:
        config = TiermeshConfig.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(_describe(error, path)) from None
    # Not resolved: Kubernetes puts files behind a symbolic link that it replaces when they change.
    found: dict[str, Any] = {"rules": (path.parent / config.rules).absolute()}
    if config.outcomes.drift_reference is not None:
        reference = (path.parent / config.outcomes.drift_reference).absolute()
        found["outcomes"] = config.outcomes.model_copy(update={"drift_reference": reference})
    if config.bandit.report is not None:
        report = (path.parent / config.bandit.report).absolute()
        found["bandit"] = config.bandit.model_copy(update={"report": report})
    found["tls"] = _located(config.tls, path.parent)
    config = config.model_copy(update=found)
    if config.bandit.mode == "live" and (refused := why_not_live(config, config.bandit.report, datetime.now(UTC))):
        raise ConfigError(f"{path}: {refused}")
    return config


def _located(tls: TlsConfig, folder: Path) -> TlsConfig:
    ingress, own = (
        {
            key: (folder / file).absolute()
            for key in ("certificate", "private_key", "trusted_ca")
            if (file := getattr(section, key, None)) is not None
        }
        for section in (tls.ingress, tls)
    )
    return tls.model_copy(update={**own, "ingress": tls.ingress.model_copy(update=ingress)})


def _read(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    if path in seen:
        raise ConfigError(f"{path}: extends itself through {' -> '.join(p.name for p in seen)}")
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); pass an existing file with --config") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not valid YAML: {error}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: must be a mapping of keys to values, not {type(raw).__name__}")
    base = raw.pop("extends", None)
    if base is None:
        return raw
    if not isinstance(base, str):
        raise ConfigError(f"{path}: extends: must be a file name, not {base!r}")
    merged = _merge(_read((path.parent / base), (*seen, path)), raw)
    assert isinstance(merged, dict)
    return merged


def _merge(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{k: _merge(base.get(k), v) for k, v in over.items()}}
    if _named(base) and _named(over):
        changes = {item["name"]: item for item in over}
        kept = [_merge(item, changes.pop(item["name"], {})) for item in base]
        return [*kept, *changes.values()]
    return over


def _named(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and "name" in item for item in value)


def _overlay(raw: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    merged: Any = dict(raw)
    for name in sorted(n for n in environ if n.startswith(ENV_PREFIX)):
        value: Any = yaml.safe_load(environ[name])
        for key in reversed(name.removeprefix(ENV_PREFIX).lower().split("__")):
            value = {key: value}
        merged = _merge(merged, value)
    assert isinstance(merged, dict)
    return merged


def _describe(error: ValidationError, path: Path) -> str:
    lines = [f"{path}: {error.error_count()} wrong value(s)"]
    for problem in error.errors(include_url=False):
        key = ".".join(str(part) for part in problem["loc"]) or "(file)"
        given = "" if problem["type"] in {"missing", "value_error"} else f" (given: {problem['input']!r})"
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = f"unknown key; allowed here: {', '.join(_allowed(problem['loc']))}"
        lines.append(f"  {key}: {message}{given}")
    return "\n".join(lines)


def _allowed(location: tuple[int | str, ...]) -> list[str]:
    """Names the keys that the section holding `location` knows."""
    schema: Any = TiermeshConfig.model_json_schema()
    definitions = schema.get("$defs", {})
    for part in location[:-1]:
        schema = schema.get("items", {}) if isinstance(part, int) else schema.get("properties", {}).get(part, {})
        reference = schema.get("$ref") or next((s["$ref"] for s in schema.get("anyOf", ()) if "$ref" in s), None)
        if reference:
            schema = definitions[reference.rsplit("/", 1)[-1]]
    return sorted(schema.get("properties", {}))
