"""Reads the rules file; what is wrong with it is said by file, key and allowed values."""

from __future__ import annotations

import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from tiermesh.shared.config import ConfigError
from tiermesh.shared.rules.book import RuleBook, make_book
from tiermesh.shared.rules.schema import RulesFile

_Location = tuple[int | str, ...]


def load_rules(path: Path) -> RuleBook:
    """Reads, checks and compiles a rules file. Takes tens of milliseconds, for the patterns are tried out.

    Raises:
        ConfigError: the file is missing, is not YAML, or has a wrong value.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name an existing file as `rules`") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8: {error}") from None
    return parse_rules(text, path)


def parse_rules(text: str, path: Path) -> RuleBook:
    """Checks and compiles the text of a rules file; `path` is for messages.

    Raises:
        ConfigError: it is not YAML, or has a wrong value.
    """
    return make_book(read_rules_file(text, path))


def read_rules_file(text: str, path: Path) -> RulesFile:
    """Checks the text of a rules file; `path` is for messages.

    Raises:
        ConfigError: it is not YAML, or has a wrong value.
    """
    try:
        raw = yaml.load(text, Loader=_Loader)  # noqa: S506 -- a subclass of SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not valid YAML: {error}") from None
    if raw is None:
        # Editors empty a file before they fill it; that moment must not put "no rules" in force.
        raise ConfigError(f"{path}: is empty; write `rules: []` to have no rules")
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: must be a mapping of keys to values, not {type(raw).__name__}")
    try:
        return RulesFile.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(_describe(error, raw, path)) from None


class _Loader(yaml.SafeLoader):
    """YAML that refuses a key given twice, which would silently drop the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key) if isinstance(key, str) else None
        return super().construct_mapping(node, deep)


def _describe(error: ValidationError, raw: Mapping[str, Any], path: Path) -> str:
    lines = [f"{path}: {error.error_count()} wrong value(s)"]
    for problem in error.errors(include_url=False):
        location = tuple(part for part in problem["loc"] if part != "[key]")
        given = "" if problem["type"] in {"missing", "value_error"} else f" (given: {problem['input']!r:.80})"
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = f"unknown key; allowed here: {', '.join(_allowed(location))}"
            given = ""
        lines.append(f"  {_place(location, raw)}: {message}{given}")
    return "\n".join(lines)


def _place(location: _Location, raw: Any) -> str:
    """Writes a location as `rules[3] (code-fenced).any[0]`."""
    place = ""
    for part in location:
        if isinstance(part, int):
            place += f"[{part}]"
            raw = raw[part] if isinstance(raw, list | tuple) and part < len(raw) else None
            if isinstance(raw, dict) and isinstance(raw.get("name"), str):
                place += f" ({raw['name']})"
        else:
            place += f".{part}" if place else part
            raw = raw.get(part) if isinstance(raw, dict) else None
    return place or "(file)"


def _allowed(location: _Location) -> list[str]:
    """Names the keys that the section holding `location` knows."""
    kind: Any = RulesFile
    for part in location[:-1]:
        if isinstance(part, str) and isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = _section(kind.model_fields[part].annotation)
    return sorted(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def _section(annotation: Any) -> Any:
    """Returns the section that a field holds, alone, in a list, in a mapping or optionally."""
    if get_origin(annotation) in {tuple, dict, Union, types.UnionType}:
        for inner in get_args(annotation):
            found = _section(inner)
            if found is not None:
                return found
        return None
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
