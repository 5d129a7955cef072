"""Whether one routing rule matches wherever another one does.

Sound and not complete: what is said to hold holds for every request, but only conditions that can be compared are.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiermesh.shared.rules.lint.witnesses import covered
from tiermesh.shared.rules.schema import RoutingRule, Structure


def implies(narrow: RoutingRule, wide: RoutingRule) -> bool:
    """Whether every request that `narrow` matches is matched by `wide` too."""
    return (
        (wide.min_tokens or 0) <= (narrow.min_tokens or 0)
        and (wide.max_tokens is None or (narrow.max_tokens is not None and narrow.max_tokens <= wide.max_tokens))
        and _within(narrow.languages, wide.languages)
        and _within(narrow.tenants, wide.tenants)
        and _structure_implies(narrow.structure, wide.structure)
        and _any_implies(narrow, wide)
        and all(_requires(narrow, pattern) for pattern in wide.all)
        and all(covered(pattern, narrow.none) for pattern in wide.none)
    )


def _within(narrow: Sequence[str], wide: Sequence[str]) -> bool:
    return not wide or (bool(narrow) and set(narrow) <= set(wide))


def _structure_implies(narrow: Structure, wide: Structure) -> bool:
    for key, wanted in wide:
        has = getattr(narrow, key)
        if wanted is None:
            continue
        if has is None or (has != wanted if isinstance(wanted, bool) else has < wanted):
            return False
    return True


def _any_implies(narrow: RoutingRule, wide: RoutingRule) -> bool:
    if not wide.any:
        return True
    if any(covered(pattern, wide.any) for pattern in narrow.all):
        return True
    return bool(narrow.any) and all(covered(pattern, wide.any) for pattern in narrow.any)


def _requires(rule: RoutingRule, pattern: str) -> bool:
    """Whether a rule matches only where a pattern is found."""
    if any(covered(own, (pattern,)) for own in rule.all):
        return True
    return bool(rule.any) and all(covered(own, (pattern,)) for own in rule.any)
