"""What a training set is: where it comes from, what was left out and why, and what may be done with it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tiermesh.outcomes.distill.sampled import Sampled
from tiermesh.outcomes.distill.select import Example, Filters, Selected
from tiermesh.outcomes.redaction import VERSION
from tiermesh.shared.outcomes import SCHEMA_VERSION

FORMAT = 1
"""Of the manifest."""
_LICENCE = (
    "The answers were written by {models}. Whether they may train another model is decided by the licence or terms of"
    " those models, and whether the questions may by what was agreed with those who asked them. This export grants"
    " neither."
)


def make_manifest(
    *,
    made: str,
    tenant: str,
    window: dict[str, str | None],
    filters: Filters,
    selected: Selected,
    sampled: Sampled,
    written: Sequence[tuple[Example, int]],
    files: dict[str, Path],
    settings: dict[str, Any],
) -> dict[str, Any]:
    """Returns the manifest of a training set.

    Args:
        made: When, ISO 8601.
        tenant: Whose requests; empty for everybody's.
        window: `since` and `until` as they were asked for.
        filters: What examples had to be.
        selected: Which records could have been examples.
        sampled: Which of them are.
        written: The examples, each with its cluster, in the file's order.
        files: Files beside the manifest, by name.
        settings: Of the sampling.
    """
    models = sorted({example.model for example, _ in written})
    by_cluster = Counter(cluster for _, cluster in written)
    return {
        "format": FORMAT,
        "made": made,
        "versions": {
            "tiermesh": version("tiermesh-outcomes"),
            "outcome_schema": SCHEMA_VERSION,
            "redaction": VERSION,
            "configurations": sorted({example.config_version for example, _ in written}),
        },
        "tenant": tenant or "all",
        "window": window,
        "filters": {
            "tiers": sorted(filters.tiers),
            "task_types": sorted(filters.task_types),
            "least_verdict": filters.least_verdict,
            "judged_only": filters.judged_only,
            "allow_simulated": filters.allow_simulated,
        },
        "sampling": settings,
        "counts": {
            "records_read": selected.read_count,
            "passed_over": dict(sorted(selected.passed_over.items())),
            "could_be_examples": len(selected.examples),
            "like_another": sampled.alike_count,
            "examples": len(written),
            "by_task_type": dict(sorted(Counter(example.task_type for example, _ in written).items())),
            "judged": sum(example.verdict is not None for example, _ in written),
        },
        "clusters": [{"requests": size, "examples": by_cluster[n]} for n, size in enumerate(sampled.sizes)],
        "models": models,
        "redacted": dict(sorted(selected.redactions.items())),
        "files": {name: _describe(path) for name, path in files.items()},
        "licence": _LICENCE.format(models=", ".join(models) or "no model"),
    }


def _describe(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    lines = 0
    with path.open("rb") as content:
        for line in content:
            digest.update(line)
            lines += 1
    return {"sha256": digest.hexdigest(), "bytes": path.stat().st_size, "lines": lines}
