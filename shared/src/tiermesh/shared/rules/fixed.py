"""Whether a conversation has a fixed answer: exactly, or not at all.

A wrong fixed answer is worse than a slow right one, so nothing here is fuzzy: the last message
must be a listed phrase, apart from case, width, spacing, punctuation around it and listed polite
words; or a label prompt whose text leaves no doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tiermesh.shared.rules.book import FixedAnswer, RuleBook, without_politeness
from tiermesh.shared.rules.labels import MAX_PROMPT_CHARS, judge_label, read_label_prompt
from tiermesh.shared.rules.schema import FixedAnswerPolicy
from tiermesh.shared.rules.text import fold, key_of_folded


class Turn(Protocol):
    """One message of a conversation."""

    @property
    def role(self) -> str:
        """`system`, `user`, `assistant` or `tool`."""
        ...

    @property
    def content(self) -> str:
        """The text."""
        ...


def match_fixed(book: RuleBook, messages: Sequence[Turn], folded: str | None = None) -> FixedAnswer | None:
    """Returns the fixed answer to a conversation's last message, if it has one and the file's policy allows it here.

    None as well where a tool has been called, or where the last message is not the user's.

    Args:
        book: The rules in force.
        messages: The conversation, oldest first.
        folded: The last message as `fold` returns it, where that is known already.
    """
    if not messages or messages[-1].role != "user":
        return None
    text = messages[-1].content
    if len(text) > max(book.longest_phrase_chars, MAX_PROMPT_CHARS):
        return None
    if folded is None:
        folded = fold(text)
    if len(text) <= book.longest_phrase_chars:
        for key in without_politeness(book, key_of_folded(folded)):
            phrase = book.phrases.get(key)
            if phrase is not None:
                return phrase.answer if _allowed(phrase.policy, messages) else None
    prompt = read_label_prompt(book.label_sets, text, folded)
    if prompt is None:
        return None
    labels = next(labels for labels in book.label_sets if labels.name == prompt.label_set)
    label = judge_label(labels, prompt) if _allowed(labels.policy, messages) else None
    return None if label is None else FixedAnswer("label", f"label:{labels.name}", label, prompt.language)


def _allowed(policy: FixedAnswerPolicy, messages: Sequence[Turn]) -> bool:
    earlier = messages[:-1]
    if any(turn.role == "tool" for turn in earlier):
        return False
    if not policy.with_system_prompt and any(turn.role == "system" and turn.content.strip() for turn in earlier):
        return False
    return policy.in_conversation or all(turn.role == "system" for turn in earlier)
