"""A question's content in its plain order, so that who does what can be read off it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tiermesh.cache.semantic.question import Question

DONE = frozenset({
    "made", "built", "sold", "sent", "won", "done", "known", "bought", "paid", "held", "led", "found", "kept", "lost", "caught",
    "taught", "told", "hit", "cut", "set", "read", "run", "put", "spent", "shot", "worn", "born", "drawn", "thrown", "shown",
})  # fmt: skip
"""Participles without an ending that shows it."""
BE = frozenset({"be", "is", "are", "was", "were", "been", "being"})
_OFTEN = frozenset({"day", "week", "month", "year", "night"})
_OWNS = "'s"
_LINKS = frozenset({"of", "for", "in", "on"})
_CASES = frozenset({"while", "when", "during", "if", "after", "before"})
_PERSONS = frozenset({"my", "me", "your", "our", "us", "his", "her", "him", "their", "them"})
_DEEDS_TO = frozenset(
    [
        "think",
        "talk",
        "speak",
        "dream",
        "hear",
        "know",
        "ask",
        "look",
        "wait",
        "care",
        "pay",
        "search",
        "apply",
        "work",
        "live",
        "depend",
        "rely",
        "stand",
        "come",
        "go",
        "laugh",
        "write",
        "vote",
        "fight",
        "bet",
        "play",
        "act",
        "sit",
        "run",
        "stay",
        "fall",
        "focus",
        "agree",
        "count",
        "insist",
        "happen",
        "sell",
        "buy",
        "send",
        "give",
        "take",
        "put",
    ]
)
_DETERMINERS = frozenset({"the", "a", "an", "my", "your", "our"})
HOLDERS = frozenset(
    {
        "bottle",
        "box",
        "cup",
        "glass",
        "bag",
        "can",
        "tin",
        "piece",
        "slice",
        "pack",
        "jar",
        "bowl",
        "pair",
        "kind",
        "lot",
    }
)
"""Heads that mean another thing in a compound: a cup of tea is no tea cup."""


def plain_order(question: Question) -> list[str]:
    """Returns the content in the order of the active voice: `is it covered by insurance` as `insurance cover it`."""
    # `A week` may stand anywhere.
    often = {token for before, token in pairwise(question.tokens) if before == "a" and token in _OFTEN}
    return [token for token in _active(question) if token not in often]


def owned_first(order: list[str], question: Question, *, most: int) -> list[str]:
    """Returns an order with a thing before whose it is: `the app's name` as `name of the app`.

    Args:
        order: Content in plain order.
        question: Where it stands.
        most: Most words that may name the thing; where more content follows, they are not all its name.
    """
    tokens = question.tokens
    for at, token in enumerate(tokens):
        if token == _OWNS:
            owner = _run(order, tokens, at - 1, -1)
            owned = _run(order, tokens, at + 1, 1)[:most]
            first = order.index(owner[0]) if owner else 0
            end = first + len(owner) + len(owned)
            if owner and owned and order[first:end] == [*owner, *owned]:
                order = [*order[:first], *owned, *owner, *order[end:]]
    return order


def compounds(order: list[str], question: Question) -> Iterator[tuple[list[str], list[str]]]:
    """Yields the orders in which one thing stands before what it is of, for, in or on: `gift tax` for `tax on gifts`.

    Beside each order stand the words that make up the name.
    """
    tokens = question.tokens
    for at, token in enumerate(tokens):
        if token not in _LINKS:
            continue
        begin = at + 1
        while begin < len(tokens) and tokens[begin] in _DETERMINERS:
            begin += 1
        heads, after = _run(order, tokens, at - 1, -1), _run(order, tokens, begin, 1)
        for most in range(1, len(heads) + 1):
            for more in range(1, len(after) + 1):
                head, whose = heads[-most:], after[:more]
                first = order.index(head[0])
                end = first + most + more
                if head[0] not in HOLDERS and order[first:end] == [*head, *whose]:
                    yield [*order[:first], *whose, *head, *order[end:]], [*whose, *head]


def is_one_name(question: Question, words: list[str]) -> bool:
    """Tells whether words stand side by side in a question, with nothing between that says how they belong together."""
    tokens = question.tokens
    if _CASES & set(question.words):
        # `Get my period while pregnant` names no pregnant period.
        return False
    if not _LINKS & set(tokens) and _OWNS not in tokens:
        return True
    # More belongs together elsewhere, so a deed might be taken for a thing: `what I think of it`.
    if _DEEDS_TO & set(words) or _PERSONS & set(tokens):
        return False
    return any(list(tokens[at : at + len(words)]) == words for at in range(len(tokens) - len(words) + 1))


def _run(order: list[str], tokens: tuple[str, ...], at: int, step: int) -> list[str]:
    found: list[str] = []
    while 0 <= at < len(tokens) and tokens[at] in order:
        found.append(tokens[at])
        at += step
    return found[::step]


def _active(question: Question) -> list[str]:
    """Returns the content in the order of the active voice: `is it covered by insurance` as `insurance cover it`."""
    tokens, content = question.tokens, list(question.content)
    words = question.words
    mark = "by" if "by" in words else "in" if {"included", "contained"} & set(words) else ""
    if question.language != "en" or tokens.count(mark) != 1 or words.count(mark) != 1 or not BE & set(words):
        return content
    done = words[words.index(mark) - 1]
    if mark == "in" and done not in {"included", "contained"}:
        return content
    if not done.endswith(("ed", "en")) and done not in DONE:
        return content
    at = tokens.index(mark)
    before = [token for token in tokens[:at] if token in content]
    after = [token for token in tokens[at + 1 :] if token in content]
    if not before or not after or tokens[at - 1] != before[-1] or len(before) + len(after) != len(content):
        return content
    return [*after, before[-1], *before[:-1]]
