"""Answers that decline: never kept, since the next try may do better."""

from __future__ import annotations

import re

_HEAD_CHARS = 160
"""A refusal says so at once; later words are about something else."""
_ENGLISH = re.compile(
    r"\b(?:i'?m (?:sorry|afraid)|i am (?:sorry|afraid|unable)|sorry|unfortunately|i apologi[sz]e)\b.{0,80}"
    r"\b(?:can(?:'t|not| not)|unable|not able|won'?t|don't have|do not have|not allowed|not possible)\b"
    r"|^\W*i (?:can(?:'t|not| not)|won'?t|will not|am not able to|am unable to|must decline|refuse to) "
    r"(?:help|assist|answer|provide|comply|do that|discuss|support|fulfil+|continue|give|share|create|generate|write)"
    r"|\bas an ai(?: language)? model\b.{0,60}\b(?:can(?:'t|not| not)|unable|don't|do not)\b",
    re.IGNORECASE | re.DOTALL,
)
_CHINESE = re.compile(
    "(?:抱歉|对不起|不好意思|很遗憾).{0,30}(?:无法|不能|没法|不便|没有办法|帮不了|不支持|不可以)"
    "|^\\W*我(?:无法|不能|没法|没有办法)(?:回答|提供|协助|帮助|满足|完成|讨论|透露|给出|生成|处理)"
    "|作为(?:一个|一款)?(?:AI|人工智能|语言模型|大模型|智能助手).{0,30}(?:无法|不能|没有)",
    re.IGNORECASE | re.DOTALL,
)


def is_refusal(text: str) -> bool:
    """Tells whether an answer declines, by how it begins. In doubt it does, which only costs a hit."""
    head = text.lstrip()[:_HEAD_CHARS].replace("’", "'")
    return bool(_ENGLISH.search(head) or _CHINESE.search(head))
