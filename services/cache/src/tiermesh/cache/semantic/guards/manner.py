"""How an answer is to be given: briefly or in full, step by step, for whom."""

from __future__ import annotations

import re

from tiermesh.cache.semantic.question import Question

_TELLS = r"(?:说|讲|介绍|解释|描述|谈|聊|阐|回答|分析|讲解|科普|归纳|叙述|告诉)"
_MANNERS = (
    (
        "briefly",
        re.compile(
            r"\b(?:briefly|concise(?:ly)?|succinct(?:ly)?|summari[sz]e|summary|outline|overview|tl;?dr|"
            r"in (?:brief|short|a nutshell|(?:one|a|a single|a few|two|three|\d+) (?:words?|sentences?|lines?|paragraphs?))|"
            r"(?:brief|short|quick) (?:answer|explanation|description|version|introduction))\b"
            rf"|简要|简短|简述|概述|概括|总结|一句话|简洁|简明|长话短说|(?:简单|大概|大致|粗略|快速)地?(?:给我|跟我|向我)?{_TELLS}"
        ),
    ),
    (
        "in full",
        re.compile(
            r"\b(?:detail(?:s|ed)?|in depth|in-depth|thorough(?:ly)?|comprehensive(?:ly)?|exhaustive(?:ly)?|elaborate)\b"
            rf"|详细|详尽|详述|细说|细讲|深入|全面地?{_TELLS}|具体地?(?:给我|跟我|向我)?{_TELLS}"
        ),
    ),
    ("step by step", re.compile(r"\bstep[- ]by[- ]step\b|一步一步|一步步|逐步|分步")),
    (
        "for somebody",
        re.compile(
            r"\b(?:eli5|like i am \w+|(?:to|for) (?:an? |the |my |total |complete |absolute |small |young |non-?technical )*"
            r"(?:beginner|newbie|novice|child|children|kid|layman|laymen|layperson|dummy|dummie|dummies|teenager|expert|"
            r"student|(?:five|ten|\d+)[- ]year[- ]olds?)s?|"
            r"in (?:simple|plain|easy|lay\w*|technical|mathematical|everyday) (?:terms?|words?|english|language))\b"
            r"|通俗|大白话|浅显|像对|用(?:简单|专业|数学|学术)的?(?:话|语言|术语)|"
            r"(?:给|对|向|跟)(?:小孩子?|孩子|儿童|小朋友|小学生|初学者|小白|新手|外行|老人|专家)"
        ),
    ),
)
_I_AM = re.compile(r"\bi'm\b")


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses where one says how it wants to be answered, and the other does not say the same."""
    mine, theirs = _manners(asked), _manners(known)
    if mine == theirs:
        return None
    return f"only one is to be answered {min(mine ^ theirs)}"


def _manners(question: Question) -> set[str]:
    text = _I_AM.sub("i am", question.text.lower())
    return {name for name, pattern in _MANNERS if pattern.search(text)}
