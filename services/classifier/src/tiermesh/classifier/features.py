"""What a conversation looks like: the numbers and the short text that rules judge by."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import regex
from tiermesh.shared.rules import TextCounts, TokenWeights, detect_languages, estimate_tokens, fold, measure

HEAD_CHARS, TAIL_CHARS = 2000, 1000
"""What is looked at of a long message: people say what they want before or after what they paste."""
_MESSAGE_TOKENS = 4
"""What a chat template puts around a message, about."""
# A line break is found much faster than the beginning of a line; texts are given one in front.
_STEPS = regex.compile(
    r"\n ?(?:\(?\d{1,2}[.):,] |\(?\d{1,2}[.):,](?=\p{Han})|step \d{1,2}\b|第[一二三四五六七八九十\d]{1,3}步)"
)
_ITEMS = re.compile(r"\n ?[-*•·–] ")
_PLACED_STEPS = re.compile(r"\bstep \d{1,2}\b|第[一二三四五六七八九十\d]{1,3}步")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: str = ""
    """Names and arguments of the tools called, as the model reads them."""


@dataclass(frozen=True, slots=True)
class Features:
    """One conversation, measured. Counts are of its last user message unless they say otherwise."""

    text: str
    """The message in folded form; of a long one, its head and tail."""
    counts: TextCounts
    prompt_tokens: int
    """Of the whole conversation, by estimate."""
    languages: tuple[str, ...]
    turns: int
    """User messages of the conversation."""
    system_prompt: bool
    tool_history: bool
    code_fences: int
    earlier_code_fences: int
    """In the turns before it, without the system prompt."""
    numbered_steps: int
    list_items: int
    question_marks: int

    def numbers(self) -> dict[str, float]:
        """Returns the features by name, for logs, traces and learnt models."""
        counts = self.counts
        chars = max(1, counts.chars)
        return {
            "estimated_prompt_tokens": float(self.prompt_tokens),
            "char_count": float(counts.chars),
            "word_count": float(counts.words),
            "line_count": float(counts.lines),
            "cjk_share": round((counts.han + counts.kana + counts.hangul) / chars, 4),
            "digit_share": round(counts.digits / chars, 4),
            "mark_share": round(counts.marks / chars, 4),
            "emoji_count": float(counts.emoji),
            "code_fence_count": float(self.code_fences),
            "earlier_code_fence_count": float(self.earlier_code_fences),
            "numbered_step_count": float(self.numbered_steps),
            "list_item_count": float(self.list_items),
            "question_mark_count": float(self.question_marks),
            "turn_count": float(self.turns),
            "has_system_prompt": float(self.system_prompt),
            "has_tool_history": float(self.tool_history),
        }


def read_features(turns: Sequence[Turn], weights: TokenWeights) -> Features:
    """Measures a conversation. Any text will do; none at all gives zeros."""
    content = next((turn.content for turn in reversed(turns) if turn.role == "user"), "")
    counts = measure(content)
    shown = content
    if len(content) > HEAD_CHARS + TAIL_CHARS:
        shown = f"{content[:HEAD_CHARS]}\n{content[-TAIL_CHARS:]}"
    text = fold(shown)
    lines = f"\n{text}"
    return Features(
        text=text,
        counts=counts,
        prompt_tokens=_tokens(turns, content, counts, weights),
        languages=detect_languages(content),
        turns=sum(turn.role == "user" for turn in turns),
        system_prompt=any(turn.role == "system" and turn.content.strip() for turn in turns),
        tool_history=any(turn.role == "tool" or turn.calls for turn in turns),
        code_fences=_fences(content),
        earlier_code_fences=sum(
            _fences(turn.content) for turn in turns if turn.role != "system" and turn.content is not content
        ),
        numbered_steps=_numbered_steps(lines),
        list_items=len(_ITEMS.findall(lines)),
        question_marks=content.count("?") + content.count("？"),
    )


def _numbered_steps(lines: str) -> int:
    steps = len(_STEPS.findall(lines))
    # Looking for a word is much cheaper than for the pattern.
    return max(steps, len(_PLACED_STEPS.findall(lines))) if "step " in lines or "第" in lines else steps


def _fences(text: str) -> int:
    # A fence that is never closed counts as one.
    return (text.count("```") + 1) // 2


def _tokens(turns: Sequence[Turn], measured: str, counts: TextCounts, weights: TokenWeights) -> int:
    total = 0
    for turn in turns:
        # The last user message is often nearly all there is, and has been measured already.
        of_content = counts if turn.content is measured else measure(turn.content)
        total += _MESSAGE_TOKENS + estimate_tokens(of_content, weights)
        if turn.calls:
            total += estimate_tokens(measure(turn.calls), weights)
    return total
