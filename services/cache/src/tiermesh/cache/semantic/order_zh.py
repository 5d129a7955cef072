"""Chinese content in its order: what may stand before the word that asks, or after it."""

from __future__ import annotations

from tiermesh.cache.semantic.question import Question

HOW = frozenset({"怎么", "怎么办", "哪里", "什么时候", "为什么", "多久", "多少", "多少钱"})
"""Kinds that ask about a deed."""
WHETHER = frozenset({"能吗", "该吗", "须吗"})
"""Kinds that ask whether a deed can or should be done."""
MOST = "最"


def is_fronted(asked: Question, known: Question, mine: list[str], theirs: list[str]) -> bool:
    """Tells whether a thing and its deed changed places around the question: `生鸡蛋能吃吗` and `能吃生鸡蛋吗`.

    Two neighbouring stretches of words change places, and just one of them passes the word that asks.
    Who does it and whom he does it to change places across the deed, which is a third stretch.
    """
    if asked.kind not in HOW | WHETHER or any(
        question.tokens.count(token) > 1 for question in (asked, known) for token in mine
    ):
        # `会员怎么邀请非会员`: what stands twice hides what moved.
        return False
    begin = next(at for at, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1])
    end = len(mine) - next(
        at for at, pair in enumerate(zip(mine[::-1], theirs[::-1], strict=True)) if pair[0] != pair[1]
    )
    one, other = mine[begin:end], theirs[begin:end]
    for at in range(1, len(one)):
        if one[at:] + one[:at] == other:
            passed = [
                {_is_before_frame(asked, token) != _is_before_frame(known, token) for token in part}
                for part in (one[:at], one[at:])
            ]
            return sorted(passed, key=str) == [{False}, {True}]
    return False


def without_most(order: list[str]) -> list[str]:
    """Returns an order without what says how it is best: that stands before the deed or after it."""
    return [token for at, token in enumerate(order) if token != MOST and order[at - 1 : at] != [MOST]]


def _is_before_frame(question: Question, token: str) -> bool:
    tokens = question.tokens
    if token not in tokens or question.kind not in tokens:
        return False
    return tokens.index(token) < tokens.index(question.kind)
