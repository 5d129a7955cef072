"""What the linter says of a rules file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]
"""`error`: something can never count, or two things contradict each other. `warning`: probably so, from examples.
`note`: needless, but harmless."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a rules file."""

    severity: Severity
    kind: str
    """Machine-readable, such as `shadowed` or `never-matches`."""
    place: str
    """Key in the file, such as `rules[3].any[0]`."""
    name: str
    """Of the rule, entry or label set; empty for the file as a whole."""
    message: str
    """What is wrong."""
    advice: str
    """What to do."""
    line: int = 0
    """Line of the file, from 1; 0 where it is not known."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the finding as JSON can hold it."""
        return asdict(self)
