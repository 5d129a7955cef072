"""Whether a bandit may go live: its replay has passed, for these very settings, and not too long ago."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tiermesh.shared.config._schema import TiermeshConfig

REPORT_FORMAT = 1
_HOW = "run `tiermesh replay OUTCOMES --config FILE --out REPORT` and name the report as bandit.report, or set bandit.mode: shadow"


def bandit_digest(config: TiermeshConfig) -> str:
    """Returns a short hash of everything that makes a bandit decide otherwise; a report counts for one such hash."""
    bandit = config.bandit.model_dump(
        mode="json", include={"exploration", "floor", "prior_strength", "window", "tolerance"}
    )
    balance = config.balance.model_dump(
        mode="json", include={"right_weight", "cost_weight", "least_right", "right_probabilities"}
    )
    tiers = [
        tier.model_dump(mode="json", include={"name", "backend", "model", "price_in", "price_out", "strength"})
        for tier in config.tiers
    ]
    return hashlib.sha256(json.dumps([bandit, balance, tiers], sort_keys=True).encode()).hexdigest()[:16]


def report_digest(report: dict[str, Any]) -> str:
    """Returns the checksum of a report, itself left out."""
    rest = {key: value for key, value in report.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def why_not_live(config: TiermeshConfig, report: Path | None, now: datetime) -> str | None:
    """Returns why the bandit may not decide, or None if it may.

    Args:
        config: With the settings of the bandit.
        report: The file that is to prove it.
        now: The present time, with its zone.
    """
    if report is None:
        return f"bandit.mode live needs bandit.report; {_HOW}"
    try:
        found = json.loads(report.read_text("utf-8"))
        if found["sha256"] != report_digest(found) or found["format"] != REPORT_FORMAT:
            return f"bandit.report {report} is damaged or of another version; {_HOW}"
        made, passed, settings = datetime.fromisoformat(found["made"]), found["passed"], found["settings"]
        age = now - made.replace(tzinfo=made.tzinfo or UTC)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"bandit.report {report} cannot be read ({type(error).__name__}); {_HOW}"
    if passed is not True:
        return f"bandit.report {report} says that the replay has not passed; {_HOW}"
    if settings != bandit_digest(config):
        return f"bandit.report {report} is about other settings, tiers or prices; {_HOW}"
    if age > timedelta(days=config.bandit.report_max_age_days) or age < -timedelta(hours=1):
        days = age.total_seconds() / 86400
        return (
            f"bandit.report {report} is {days:.1f} days old, and may be {config.bandit.report_max_age_days:g}; {_HOW}"
        )
    return None
