"""Routing rules that can never match, never count, or contradict each other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tiermesh.shared.rules.languages import DETECTED
from tiermesh.shared.rules.lint.finding import Finding
from tiermesh.shared.rules.lint.implication import implies
from tiermesh.shared.rules.lint.witnesses import covered, matches, witnesses
from tiermesh.shared.rules.schema import RoutingRule

UNNAMED_COMPLEXITY = 0.3
"""Complexity of a request whose kind no rule names: what raises it to no more than this changes nothing there."""
_MESSAGE_TOKENS = 4
"""What every message of a conversation counts at least."""


def lint_rules(rules: Sequence[RoutingRule], tenants: Collection[str] | None) -> Iterator[Finding]:
    """Yields what is wrong with routing rules.

    Args:
        rules: In the order of the file.
        tenants: Names of the tenants there are; None where they are not known.
    """
    for at, rule in enumerate(rules):
        yield from _alone(at, rule, tenants)
    # As they are asked: the highest priority first, and of equal ones the first of the file.
    ranked = sorted(enumerate(rules), key=lambda pair: -pair[1].priority)
    naming = [(at, rule) for at, rule in ranked if rule.task_type is not None]
    raising = [(at, rule) for at, rule in ranked if rule.task_type is None]
    yield from _shadowed(naming)
    yield from _outweighed(raising, [rule for _, rule in naming])
    yield from _contradictory(naming)


def _alone(at: int, rule: RoutingRule, tenants: Collection[str] | None) -> Iterator[Finding]:
    place = f"rules[{at}]"
    for key in ("any", "all", "none"):
        patterns: tuple[str, ...] = getattr(rule, key)
        for number, pattern in enumerate(patterns):
            where = f"{place}.{key}[{number}]"
            never = _never_matches(pattern)
            if never:
                yield Finding(
                    "error", "never-matches", where, rule.name, never,
                    "write it as texts are shown to rules: one space between words, no tabs, at most one empty line",
                )  # fmt: skip
            others = [other for other in patterns if other != pattern]
            if pattern in patterns[:number]:
                yield Finding(
                    "error", "duplicate-pattern", where, rule.name, f"pattern {pattern!r} is in `{key}` twice",
                    "remove one of them",
                )  # fmt: skip
            elif key != "all" and covered(pattern, others):
                yield Finding(
                    "note", "needless-pattern", where, rule.name,
                    f"pattern {pattern!r} matches nothing that the other patterns of `{key}` do not match",
                    "remove it",
                )  # fmt: skip
    yield from _ruled_out(place, rule)
    unknown = [code for code in rule.languages if code not in DETECTED]
    if unknown:
        dead = len(unknown) == len(rule.languages)
        yield Finding(
            "error" if dead else "warning", "unknown-language", f"{place}.languages", rule.name,
            f"no text is ever found to be in: {', '.join(unknown)}" + ("; the rule never matches" if dead else ""),
            f"use codes that are detected: {', '.join(sorted(DETECTED))}",
        )  # fmt: skip
    strangers = [] if tenants is None else [name for name in rule.tenants if name not in tenants]
    if strangers:
        yield Finding(
            "error" if len(strangers) == len(rule.tenants) else "warning",
            "unknown-tenant", f"{place}.tenants", rule.name, f"the configuration has no tenant: {', '.join(strangers)}",
            "name tenants of the configuration, or add these to it",
        )  # fmt: skip
    least = _MESSAGE_TOKENS * (rule.structure.min_turns or 0)
    if rule.max_tokens is not None and rule.max_tokens < max(least, _MESSAGE_TOKENS):
        yield Finding(
            "error", "never-matches", f"{place}.max_tokens", rule.name,
            f"no conversation of {rule.structure.min_turns or 1} or more turns has as few as {rule.max_tokens} tokens",
            "raise max_tokens, or remove the rule",
        )  # fmt: skip


def _never_matches(pattern: str) -> str | None:
    found = witnesses(pattern)
    if found.texts:
        return None
    if found.unfolded:
        return (
            f"pattern {pattern!r} matches no folded text: it describes {found.unfolded[0]!r}, and rules never see that"
        )
    if found.impossible:
        return f"pattern {pattern!r} matches nothing: of {found.impossible[0]!r}, which it describes, its assertions rule out every place"
    return None


def _ruled_out(place: str, rule: RoutingRule) -> Iterator[Finding]:
    """Patterns whose every match brings a match of `none` with it."""
    for key in ("all", "any"):
        patterns: tuple[str, ...] = getattr(rule, key)
        dead = [number for number, pattern in enumerate(patterns) if rule.none and covered(pattern, rule.none)]
        if dead and (key == "all" or len(dead) == len(patterns)):
            yield Finding(
                "error", "never-matches", f"{place}.{key}", rule.name,
                f"whatever `{key}` asks for is ruled out by `none`: {patterns[dead[0]]!r}",
                "remove the rule, or narrow `none`",
            )  # fmt: skip
            return
        for number in dead:
            yield Finding(
                "error", "dead-pattern", f"{place}.{key}[{number}]", rule.name,
                f"whatever pattern {patterns[number]!r} matches is ruled out by `none`",
                "remove the pattern, or narrow `none`",
            )  # fmt: skip


def _shadowed(naming: Sequence[tuple[int, RoutingRule]]) -> Iterator[Finding]:
    for rank, (at, rule) in enumerate(naming):
        for _, stronger in naming[:rank]:
            if not implies(rule, stronger):
                continue
            same = rule.task_type == stronger.task_type
            yield Finding(
                "error", "shadowed", f"rules[{at}]", rule.name,
                f"never names a task type: wherever it matches, {stronger.name} (priority {stronger.priority}) matches too"
                + ("" if same else f" and says {stronger.task_type}, not {rule.task_type}"),
                f"remove it, or raise its priority ({rule.priority}) above {stronger.priority}"
                + (" and keep it before it in the file" if rule.priority == stronger.priority else ""),
            )  # fmt: skip
            break


def _outweighed(raising: Sequence[tuple[int, RoutingRule]], naming: Sequence[RoutingRule]) -> Iterator[Finding]:
    least = min((rule.complexity for rule in naming), default=UNNAMED_COMPLEXITY)
    for at, rule in raising:
        if rule.complexity <= min(least, UNNAMED_COMPLEXITY):
            yield Finding(
                "error", "no-effect", f"rules[{at}]", rule.name,
                f"has no task type and raises the complexity to {rule.complexity:g}, which every request has anyway",
                "raise its complexity, give it a task type, or remove it",
            )  # fmt: skip
            continue
        for other_at, other in raising:
            # Of two that are alike, the first of the file is the one to keep.
            first = other.complexity > rule.complexity or (other.complexity == rule.complexity and other_at < at)
            if other is not rule and first and implies(rule, other):
                yield Finding(
                    "error", "no-effect", f"rules[{at}]", rule.name,
                    f"raises the complexity to {rule.complexity:g} only where {other.name} raises it to {other.complexity:g}",
                    "remove it, or raise its complexity above that",
                )  # fmt: skip
                break


def _contradictory(naming: Sequence[tuple[int, RoutingRule]]) -> Iterator[Finding]:
    for rank, (at, rule) in enumerate(naming):
        for other_at, other in naming[rank + 1 :]:
            if rule.priority != other.priority or rule.task_type == other.task_type:
                continue
            text = _in_common(rule, other)
            if text is not None and not implies(other, rule):
                yield Finding(
                    "warning", "conflict", f"rules[{other_at}]", other.name,
                    f"says {other.task_type} to {text!r}, and {rule.name} (rules[{at}]) says {rule.task_type}; both have"
                    f" priority {rule.priority}, so that only their order in the file decides",
                    "give the one that is meant a higher priority",
                )  # fmt: skip


def _in_common(one: RoutingRule, other: RoutingRule) -> str | None:
    """Returns a short text that the patterns of both rules match, where nothing else keeps them apart."""
    if not (_can_meet(one.languages, other.languages) and _can_meet(one.tenants, other.tenants)):
        return None
    for pattern in (*one.any, *one.all, *other.any, *other.all):
        for text in witnesses(pattern).texts:
            if _patterns_hold(one, text) and _patterns_hold(other, text):
                return text
    return None


def _can_meet(one: Collection[str], other: Collection[str]) -> bool:
    return not one or not other or not set(one).isdisjoint(other)


def _patterns_hold(rule: RoutingRule, text: str) -> bool:
    return (
        (not rule.any or any(matches(pattern, text) for pattern in rule.any))
        and all(matches(pattern, text) for pattern in rule.all)
        and not any(matches(pattern, text) for pattern in rule.none)
    )
