"""What a replay's figures amount to, as the report that the configuration asks for before a bandit may decide."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from tiermesh.shared.bandit.choice import Settings
from tiermesh.shared.bandit.replay import Replayed
from tiermesh.shared.config import REPORT_FORMAT, TiermeshConfig, bandit_digest, report_digest

LEAST_REQUESTS = 500
"""Fewer judged requests prove nothing, however good they look."""
LEAST_EFFECTIVE = 100.0
LEAST_SUPPORT = 0.95
MOST_WORSE = 0.02
"""By how much the share of right answers may fall, at the low end of its interval: cheaper alone is not good enough."""


def settings_of(config: TiermeshConfig) -> Settings:
    """Returns the bandit's settings of a configuration."""
    return Settings(
        exploration=config.bandit.exploration,
        floor=max(config.bandit.floor, config.balance.least_right),
        right_weight=config.balance.right_weight,
        cost_weight=config.balance.cost_weight,
        prior_strength=config.bandit.prior_strength,
    )


def objections(found: Replayed, *, exploration: float, tolerance: float) -> list[str]:
    """Returns what speaks against letting the bandit decide; empty if nothing does."""
    said = []
    if found.requests < LEAST_REQUESTS:
        said.append(f"{found.requests} judged requests; at least {LEAST_REQUESTS} are needed")
    if found.effective < LEAST_EFFECTIVE:
        said.append(
            f"the log's requests weigh as much as {found.effective:.0f}; at least {LEAST_EFFECTIVE:.0f} are needed"
        )
    if found.support < LEAST_SUPPORT:
        said.append(
            f"only {found.support:.1%} of the bandit's decisions could have been made by the log; at least"
            f" {LEAST_SUPPORT:.0%} are needed: let balance.exploration try other tiers for a while"
        )
    if found.worth_difference.low < -tolerance:
        said.append(
            f"worth may fall by {-found.worth_difference.low:.4f} against the static policy, and may by {tolerance:.4f}"
        )
    if found.right_difference.low < -MOST_WORSE:
        said.append(f"right answers may fall by {-found.right_difference.low:.1%}, and may by {MOST_WORSE:.0%}")
    if found.exploring > exploration + 1e-9:
        said.append(f"{found.exploring:.2%} of requests explore; {exploration:.2%} may")
    return said


def make_report(config: TiermeshConfig, found: Replayed, *, made: datetime, source: dict[str, Any]) -> dict[str, Any]:
    """Returns the report, with its checksum.

    Args:
        config: Whose settings were judged.
        found: The figures.
        made: The present time, with its zone.
        source: What the log was, such as its hash and how much of it was usable.
    """
    against = objections(found, exploration=config.bandit.exploration, tolerance=config.bandit.tolerance)
    report: dict[str, Any] = {
        "format": REPORT_FORMAT,
        "made": made.isoformat(timespec="seconds"),
        "passed": not against,
        "objections": against,
        "settings": bandit_digest(config),
        "log": source,
        "figures": asdict(found),
    }
    return report | {"sha256": report_digest(report)}
