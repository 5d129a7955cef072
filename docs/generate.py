"""Writes the pages that are read from code: docs/configuration.md, docs/errors.md and docs/metrics.md.

python docs/generate.py           write them
python docs/generate.py --check   exit 1 if they are not what would be written
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from metrics_page import metrics_page
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.errors import ERROR_TABLE

DOCS = Path(__file__).resolve().parent
NOTICE = "<!-- Written by docs/generate.py; change the code it names, then run `make protos`. -->\n"


def configuration_page() -> str:
    """Returns the page about the configuration file, from its schema."""
    schema = TiermeshConfig.model_json_schema()
    lines = [
        NOTICE,
        "# Configuration",
        "",
        "One YAML file configures the whole mesh; every process reads it and follows its changes. Profiles lie in",
        "`mesh/profiles/`. A file may name another beside it with `extends:` and override keys of it; lists of named",
        "objects, such as `tiers`, are merged by `name`. The environment overrides single keys:",
        "`TIERMESH__NETWORK__INGRESS_PORT=9090` sets `network.ingress_port`. Check a file with",
        "`tiermesh config check FILE`.",
    ]
    lines += _section("Top level", schema, schema["$defs"])
    lines += _sections_of(schema, "", schema["$defs"])
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    """Returns the page about error reasons, from their table."""
    lines = [
        NOTICE,
        "# Errors",
        "",
        "Every failure has a reason. Over gRPC it is `google.rpc.ErrorInfo.reason` (domain `tiermesh`) in the status",
        "details; over HTTP it is `error.code` of an OpenAI-shaped body. `tiermesh errors` prints this table too.",
        "",
        "| reason | code | gRPC status | HTTP | meaning | what to do |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{row.reason}` | {row.code} | {row.status.name} | {row.http_status} | {row.meaning} | {row.advice} |"
        for row in ERROR_TABLE.values()
    ]
    return "\n".join(lines) + "\n"


PAGES = {"configuration.md": configuration_page, "errors.md": errors_page, "metrics.md": metrics_page}


def _reference(value: dict[str, Any]) -> str | None:
    reference = value.get("$ref")
    return reference.rsplit("/", 1)[-1] if isinstance(reference, str) else None


def _sections_of(schema: dict[str, Any], at: str, definitions: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for key, value in schema["properties"].items():
        name, mark = _reference(value), ""
        if name is None:
            inner = value.get("additionalProperties")
            mark = "[]" if _reference(value.get("items", {})) else ".NAME"
            while isinstance(inner, dict) and isinstance(inner.get("additionalProperties"), dict):
                inner, mark = inner["additionalProperties"], f"{mark}.NAME"
            name = _reference(value.get("items", {})) or (_reference(inner) if isinstance(inner, dict) else None)
        if name:
            where = f"{at}{key}{mark}"
            lines += _section(f"`{where}`", definitions[name], definitions)
            lines += _sections_of(definitions[name], f"{where}.", definitions)
    return lines


def _section(title: str, schema: dict[str, Any], definitions: dict[str, Any]) -> list[str]:
    required = set(schema.get("required", ()))
    lines = [
        "",
        f"## {title}",
        "",
        schema.get("description", ""),
        "",
        "| key | values | default | meaning |",
        "|---|---|---|---|",
    ]
    for key, value in schema["properties"].items():
        name = _reference(value)
        if name:
            meaning = definitions[name].get("description", "")
            lines.append(f"| `{key}` | section | | {meaning} |")
            continue
        if not value.get("description"):
            raise SystemExit(f"generate: {title}: {key} has no description in the schema")
        default = "required" if key in required else f"`{_plain(value.get('default'))}`"
        lines.append(
            f"| `{key}` | {_values(value)} | {default} | {value.get('description', '').replace(chr(10), ' ')} |"
        )
    return lines


def _plain(default: Any) -> str:
    if default is None or isinstance(default, bool):
        return {None: "null", True: "true", False: "false"}[default]
    return str(default)


def _values(value: dict[str, Any]) -> str:
    if "enum" in value:
        return ", ".join(f"`{v}`" for v in value["enum"])
    if "anyOf" in value:
        return " or ".join(_values(option) for option in value["anyOf"])
    if value.get("type") == "array":
        return "list"
    low = value.get("minimum", value.get("exclusiveMinimum"))
    high = value.get("maximum", value.get("exclusiveMaximum"))
    bounds = (
        f" {low if low is not None else ''}..{high if high is not None else ''}" if (low, high) != (None, None) else ""
    )
    return f"{value.get('type', 'any')}{bounds}"


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 on drift")
    check: bool = parser.parse_args().check
    drift = False
    for name, make in PAGES.items():
        page, text = DOCS / name, make()
        if check and (not page.exists() or page.read_text(encoding="utf-8") != text):
            print(f"docs/{name} is out of date; run `make protos`", file=sys.stderr)
            drift = True
        elif not check:
            page.write_text(text, encoding="utf-8")
            print(f"docs/{name} written")
    return 1 if drift else 0


if __name__ == "__main__":
    sys.exit(main())
