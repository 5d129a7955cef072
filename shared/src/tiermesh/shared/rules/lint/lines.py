"""On which line of a YAML file a key is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import yaml

_PARTS = re.compile(r"\[\d+\]|[^.\[\]]+")


def lines_of(text: str) -> Mapping[str, int]:
    """Returns the line, from 1, of every place such as `rules[3].any[0]`; the text must be valid YAML."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    return {} if root is None else dict(_places(root, ""))


def nearest_line(lines: Mapping[str, int], place: str) -> int:
    """Returns the line of a place, or of the innermost one around it; 0 where none is known."""
    parts = [match.group() for match in _PARTS.finditer(place)]
    for count in range(len(parts), 0, -1):
        around = "".join(part if part.startswith("[") else f".{part}" for part in parts[:count]).lstrip(".")
        if around in lines:
            return lines[around]
    return 0


def _places(node: yaml.Node, place: str) -> Iterator[tuple[str, int]]:
    if place:
        yield place, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _places(value, f"{place}.{key.value}" if place else str(key.value))
    elif isinstance(node, yaml.SequenceNode):
        for at, item in enumerate(node.value):
            yield from _places(item, f"{place}[{at}]")
