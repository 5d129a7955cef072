"""Which of several tiers that could all answer is asked first, from how they do now: a pure function of values.

Policy's own order, the cheapest first, stands unless one of these holds, in this order:

1. another tier that is strong enough scores better by more than the configured lead: the score is
   the weighted sum of predicted time as a share of the budget left, price as a share of the dearest
   tier's, lately failed calls and, where known, how likely the answer is to be wrong; a tier that has not answered yet is not scored
2. the first choice is backlogged, and a tier that is strong enough has room, is not too dear, and is
   predicted to be in time: the request spills to it
3. the first choice is backlogged, and only a weaker tier has room: the answer is degraded, and says so

Batch work does neither spill nor degrade, since nobody waits for it; where every tier is backlogged
it is shed, so that interactive work is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tiermesh.shared.config import BalanceConfig, TierConfig

DEGRADED = "degraded"
"""Reason of an answer from a weaker tier than the request needs, because the stronger ones are busy."""
SHED_RETRY_S = 5.0
"""When shed batch work may come again."""


@dataclass(frozen=True, slots=True)
class TierView:
    """How one tier does now."""

    p95_s: float | None = None
    """Predicted 95th percentile of this request's time there, in seconds; None where nothing is known."""
    failure_rate: float = 0.0
    """Share of calls that failed lately."""
    backlogged: bool = False


@dataclass(frozen=True, slots=True)
class Ranking:
    """The order in which tiers are asked."""

    ordered: tuple[TierConfig, ...]
    reasons: tuple[str, ...] = ()
    """Why it is not policy's own, such as `spilled:l1`."""
    passed_over: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Reason and detail of a tier that is no longer first."""
    shed: bool = False
    """Whether the request is refused for now."""


def rank(
    ordered: Sequence[TierConfig],
    weaker: frozenset[str],
    views: Mapping[str, TierView],
    *,
    balance: BalanceConfig,
    left_s: float,
    batch: bool = False,
    explore: bool = False,
    rights: Mapping[str, float] | None = None,
) -> Ranking:
    """Returns the order in which tiers are asked.

    Args:
        ordered: Policy's order; all of them can take the request.
        weaker: Those that are weaker than it needs.
        views: How tiers do now; may lack some.
        balance: Weights and limits.
        left_s: Seconds left for an engine.
        batch: Whether nobody waits for the answer.
        explore: Whether the best is to be passed over once, to learn how another does.
        rights: How likely tiers are to be right, where that is known.
    """
    if len(ordered) < 2:
        return Ranking(tuple(ordered), shed=batch and _all_backlogged(ordered, views))
    first = ordered[0]
    if first.name in weaker:
        return Ranking(tuple(ordered))
    if batch and _all_backlogged(ordered, views):
        return Ranking(tuple(ordered), shed=True)
    strong = [tier for tier in ordered if tier.name not in weaker]
    best = _best(strong, views, balance, left_s, rights or {})
    if explore and len(strong) > 1:
        other = next(tier for tier in strong if tier is not best)
        return _moved(ordered, other, (f"explored:{other.name}",), best, "explored", "passed over once")
    if not _view(views, best).backlogged or batch:
        if best is first:
            return Ranking(tuple(ordered))
        detail = f"{best.name} scores better on time, price and failures"
        return _moved(ordered, best, (f"outweighed:{first.name}",), first, "outweighed", detail)
    for tier in strong:
        view = _view(views, tier)
        in_time = view.p95_s is None or view.p95_s <= left_s
        if not view.backlogged and in_time and _price(tier) <= _dearest(best, balance):
            return _moved(ordered, tier, (f"spilled:{best.name}",), best, "backlogged", "has no room now")
    for tier in ordered:
        if tier.name in weaker and not _view(views, tier).backlogged:
            return _moved(ordered, tier, (f"busy:{best.name}", DEGRADED), best, "backlogged", "has no room now")
    return Ranking(tuple(ordered))


def score(
    tier: TierConfig,
    view: TierView,
    *,
    balance: BalanceConfig,
    left_s: float,
    dearest: float,
    right: float | None = None,
) -> float:
    """Returns what speaks against a tier, 0 to the sum of the weights; the tier must have a prediction.

    Args:
        tier: The tier.
        view: How it does now.
        balance: Weights.
        left_s: Seconds left for an engine.
        dearest: Price of the dearest tier.
        right: How likely it is to be right; None where that is not known and must not count for any tier.
    """
    assert view.p95_s is not None
    time = min(1.0, view.p95_s / left_s) if left_s > 0 else 1.0
    cost = _price(tier) / dearest if dearest > 0 else 0.0
    wrong = 0.0 if right is None else balance.right_weight * (1 - right)
    return (
        balance.latency_weight * time + balance.cost_weight * cost + balance.failure_weight * view.failure_rate + wrong
    )


def _best(
    strong: Sequence[TierConfig],
    views: Mapping[str, TierView],
    balance: BalanceConfig,
    left_s: float,
    rights: Mapping[str, float],
) -> TierConfig:
    first = strong[0]
    if _view(views, first).p95_s is None:
        return first
    dearest = max(_price(tier) for tier in strong)
    known = all(tier.name in rights for tier in strong)
    scores = {
        tier.name: score(
            tier, view, balance=balance, left_s=left_s, dearest=dearest, right=rights[tier.name] if known else None
        )
        for tier in strong
        if (view := _view(views, tier)).p95_s is not None
    }
    best = min((tier for tier in strong if tier.name in scores), key=lambda tier: scores[tier.name])
    return best if scores[best.name] < scores[first.name] - balance.lead else first


def _moved(
    ordered: Sequence[TierConfig], to: TierConfig, reasons: tuple[str, ...], passed: TierConfig, why: str, detail: str
) -> Ranking:
    return Ranking((to, *(tier for tier in ordered if tier is not to)), reasons, {passed.name: (why, detail)})


def _view(views: Mapping[str, TierView], tier: TierConfig) -> TierView:
    return views.get(tier.name, _UNKNOWN)


def _all_backlogged(tiers: Sequence[TierConfig], views: Mapping[str, TierView]) -> bool:
    return bool(tiers) and all(_view(views, tier).backlogged for tier in tiers)


def _price(tier: TierConfig) -> float:
    return tier.price_in + tier.price_out


def _dearest(tier: TierConfig, balance: BalanceConfig) -> float:
    price = _price(tier)
    return price * balance.spill_price_ratio if price > 0 else float("inf")


_UNKNOWN = TierView()
