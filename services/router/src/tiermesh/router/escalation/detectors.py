"""Signs in a text that its author is lost, whatever its log-probabilities say: loops and refusals.

Both read English and Chinese. They look at the first few dozen characters of an answer, so they
must be cheap and must not mistake ordinary beginnings for signs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_UNIT = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\u3040-\u30ff]|[^\W_\u3400-\u9fff\uf900-\ufaff\u3040-\u30ff]+")
"""A Chinese or Japanese character, or a word. Marks are none: rules and tables repeat them rightly."""
_LEAST_UNITS = 6
_REPEATS = 3
_SHARE = 0.6
_LONG_WORD = 16
"""Characters from which a single word may be a loop of its own, such as `hahahahahahahaha`."""

_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u02bc": "'"})
_HEAD_CHARS = 160
_CANNOT = r"(?:can ?not|can't|could not|couldn't|won't|will not|am unable to|'m unable to|am not able to|'m not able to|am not allowed to|'m not allowed to)".replace(
    " ", r"\ "
)
_DO = r"(?:help|assist|answer|provide|comply|fulfil|do|give|offer|create|write|generate|discuss|engage|continue|process|complete|support|respond|share|tell|access|browse|determine|translate|perform)"
_ENGLISH = re.compile(
    rf"""^[\W_]*(?:
        (?:i(?:\ am|'m)\ (?:very\ |so\ |really\ )?(?:sorry|afraid)|sorry|my\ apologies|i\ apologi[sz]e|unfortunately|regrettably)
            [^.!?]{{0,40}}?\bi(?:\ |(?=')){_CANNOT}\b
      | i(?:\ |(?=')){_CANNOT}\ (?:{_DO})\b
      | as\ an?\ (?:ai|artificial\ intelligence|language\ model)[^.!?]{{0,40}}?,?\ ?i(?:\ |(?=')){_CANNOT}\b
      | as\ an?\ (?:ai|artificial\ intelligence|language\ model)[^.!?]{{0,40}}?,?\ ?i\ (?:do\ not|don't)\ have\b
      | (?:i(?:\ am|'m)\ (?:sorry|afraid)[^.!?]{{0,12}}?)?\bi\ (?:do\ not|don't)\ (?:know|have\ (?:enough\ |any\ |the\ |access\ to\ )*(?:information|answer|knowledge|access|context))\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_CHINESE = re.compile(
    r"""^[\W_]*(?:
        (?:非常|很|十分|真的?)?(?:抱歉|对不起|遗憾|不好意思)[，,。！!\s]*(?:但|不过|可是|由于.{0,12}[，,])?(?:我|本人|作为.{0,14}?我)(?:暂时|目前|现在|还|并)?
            (?:无法|不能|没有办法|没办法|不可以|不会|不便|不知道|没有(?:相关|足够))
      | 作为(?:一个|一名|一款)?\s*(?:人工智能|AI|ＡＩ|语言模型|大模型).{0,14}?我(?:暂时|目前|还|并)?(?:无法|不能|没有|不具备|不会)
      | 我(?:暂时|目前|现在)?(?:无法|不能|没有办法|没办法|不便)(?:为您|为你|给您|给你|向您|向你|帮您|帮你|直接|对此)?
            (?:回答|提供|帮助|协助|满足|完成|执行|生成|讨论|处理|访问|判断|确定|回应|继续|翻译|给出)
      | 我不(?:知道|清楚)(?:答案|这个|该|您|你|如何|怎么)
      | 您的?(?:问题|请求).{0,8}(?:我)?(?:无法|不能)(?:回答|处理|提供)
    )""",
    re.VERBOSE,
)


def repeats_itself(text: str) -> bool:
    """Returns whether most of a text is one word or phrase said over and over at its end.

    At least three repetitions, six words or characters in all, and three fifths of the text: a
    chorus, a laugh or a list that begins alike is less than that.
    """
    units = [unit.lower() for unit in _UNIT.findall(text)]
    if units and len(units[-1]) >= _LONG_WORD and _loops(units[-1]):
        return True
    return _loops(units)


def _loops(units: Sequence[str]) -> bool:
    count = len(units)
    if count < _LEAST_UNITS:
        return False
    for period in range(1, count // _REPEATS + 1):
        looped = _looped_tail(units, period)
        least = max(_LEAST_UNITS, _REPEATS * period)
        if looped >= least and looped >= _SHARE * count:
            return True
    return False


def _looped_tail(units: Sequence[str], period: int) -> int:
    """Returns how many units at the end repeat with `period`."""
    n = len(units) - 1
    while n >= period and units[n] == units[n - period]:
        n -= 1
    return len(units) - 1 - n + period if n < len(units) - 1 else 0


def refuses(text: str) -> bool:
    """Returns whether a text begins by declining to answer."""
    head = text[:_HEAD_CHARS].translate(_QUOTES)
    return bool(_ENGLISH.match(head) or _CHINESE.match(head))


def holds_phrase(text: str, phrases: Sequence[str]) -> bool:
    """Returns whether a text holds one of `phrases`, in any case."""
    if not phrases:
        return False
    folded = text.casefold()
    return any(phrase.casefold() in folded for phrase in phrases)
