"""What is wrong with a rules file that can be read: dead rules, contradictions, words that never decide.

Pure: a text in, findings out. Every `error` is certain, within what `tiermesh.shared.rules.lint.witnesses` can expand;
what it cannot, is not complained of.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from tiermesh.shared.config import ConfigError
from tiermesh.shared.rules.lint.finding import Finding, Severity
from tiermesh.shared.rules.lint.fixed import lint_fixed
from tiermesh.shared.rules.lint.label_sets import lint_label_sets
from tiermesh.shared.rules.lint.lines import lines_of, nearest_line
from tiermesh.shared.rules.lint.routing import lint_rules
from tiermesh.shared.rules.load import read_rules_file

__all__ = ["Finding", "Severity", "lint_text"]


def lint_text(text: str, path: Path, *, tenants: Collection[str] | None = None) -> list[Finding]:
    """Returns what is wrong with a rules file, in the order of its lines.

    Args:
        text: Of the file.
        path: For messages.
        tenants: Names of the tenants there are; None where they are not known.
    """
    try:
        file = read_rules_file(text, path)
    except ConfigError as error:
        return [
            Finding("error", "unusable", "", "", str(error), "correct the values named; nothing else was looked at")
        ]
    lines = lines_of(text)
    found = [*lint_rules(file.rules, tenants), *lint_fixed(file), *lint_label_sets(file)]
    placed = [replace(finding, line=nearest_line(lines, finding.place)) for finding in found]
    return sorted(placed, key=lambda finding: (finding.line, finding.place))
