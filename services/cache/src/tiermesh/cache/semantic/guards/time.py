"""What is true today need not be true tomorrow.

A question about its own moment has no answer that can be given again, whatever its wording; and a
question about the past is another than one about the present.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tiermesh.cache.semantic.question import Question

_NOW_EN = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|now|nowadays|current|currently|latest|newest|recent|recently|lately|"
    r"presently|at the moment|at present|these days|up to date|as of|so far|still|yet|already|"
    r"(?:this|next|last|past|coming|previous) (?:\w+ )?(?:second|minute|hour|morning|afternoon|evening|night|day|week|"
    r"weekend|month|quarter|year|season|monday|tuesday|wednesday|thursday|friday|saturday|sunday|spring|summer|autumn|"
    r"fall|winter)|ago|in \w+ (?:minutes?|hours?|days?|weeks?)|"
    r"what time is it|what day is it|what(?:'s| is) the (?:time|date)|"
    r"weather|forecast|temperature outside|traffic(?! (?:lights?|signs?|tickets?|laws?|rules?|cones?|codes?|schools?|violations?|fines?|signals?|police|circle)\b)|exchange rate|stock price|share price|"
    r"(?:bitcoin|btc|ethereum|gold|oil|gas|stock|share|silver) prices?|price of (?:bitcoin|btc|ethereum|gold|oil|gas)|"
    r"(?:days|weeks|months|hours|time|long) (?:are |is )?(?:left|until|till|to go)|until \w+(?: day)?\??$|countdown|from now|how soon|"
    r"news|headlines|score|trending|live (?:scores?|streams?|updates?|results?|coverage|broadcasts?|feeds?|rates?|prices?|traffic)|my balance|balance of my|where is my|is my \w+ (?:here|there|ready|done|open|closed))\b"
)
_NOW_ZH = re.compile(
    "今天|今日|今晚|今早|今年|今夜|昨天|昨日|昨晚|前天|明天|明日|明晚|明早|后天|明年|去年|前年|后年|现在|目前|当前|眼下|此刻|"
    "如今|最新|最近|近期|近来|实时|刚刚|刚才|马上|这周|本周|上周|下周|这个?月|本月|上个?月|下个?月|这星期|上星期|下星期|"
    "本季度|这几天|近几天|几点了|几号了|星期几|天气|气温|下雨|路况|堵车|汇率|股价|金价|油价|币价|比特币价格|大盘|行情|新闻|头条|"
    "热搜|还有几天|还有多久|还有多少天|倒计时|距离.{0,8}还有|比分|现任|还没|已经|我的余额|到哪了|到哪儿了"
)
_PAST_EN = re.compile(
    r"\b(?:did|was|were|had)\b|\b(?:have|has|'ve) (?:\w+ )?(?:\w{2,}ed|been|gone|done|made|taken|given|seen|paid|spent|sent|"
    r"bought|sold|lost|left|gotten|written|eaten|broken|chosen|said|told|found|kept|met|won|had)\b"
)
_YEARLESS = re.compile(
    r"\b(spring|summer|autumn|the fall(?! of)|winter|morning|afternoon|evening|night|monday|tuesday|wednesday|thursday|friday|saturday|sunday)s?\b"
)


_UNITS = (
    (re.compile(r"\b(?:what|which|at what) (?:exact )?(?:time|hour)\b|几点|什么钟点"), "time of day"),
    (
        re.compile(r"\b(?:what|which) (?:exact )?(?:day|date|weekday)\b|哪天|哪一天|几号|什么日期|星期几|周几|礼拜几"),
        "day",
    ),
    (re.compile(r"\b(?:what|which) month\b|几月(?!几号)|哪个月|什么月"), "month"),
    (re.compile(r"\b(?:what|which) season\b|什么季节|哪个季节"), "season"),
    (re.compile(r"\b(?:what|which) year\b|哪年|哪一年|哪个年份"), "year"),
    (re.compile(r"\b(?:what|which) century\b|哪个世纪|几世纪"), "century"),
)
"""What `when` may ask for."""


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses questions about their moment, and questions about different times."""
    for question in (asked, known):
        if is_about_now(question):
            return "asks about its own moment"
    mine, theirs = _units(asked), _units(known)
    if mine and theirs and mine != theirs:
        return f"one asks for the {min(mine)}, the other for the {min(theirs)}"
    if asked.language == "en":
        if _is_past(asked) != _is_past(known) and not _timeless(asked, known):
            return "one asks about the past"
        if _times_of_year_or_day(asked) != _times_of_year_or_day(known):
            return "they name different times"
    elif ("了吗" in asked.tokens) != ("了吗" in known.tokens):
        return "one asks whether it has happened"
    return None


def is_about_now(question: Question) -> bool:
    """Tells whether a question's answer depends on when it is asked."""
    return _says_now(question.text, question.language)


@lru_cache(maxsize=4096)
def _says_now(text: str, language: str) -> bool:
    # Asked of a question twice: whether it may be looked up at all, and beside its candidate.
    if language == "zh":
        return _NOW_ZH.search(text) is not None
    return _NOW_EN.search(text.lower()) is not None


def _units(question: Question) -> set[str]:
    text = question.text.lower()
    return {unit for pattern, unit in _UNITS if pattern.search(text)}


def _is_past(question: Question) -> bool:
    # Words, not the text: `where was he born` and `what is his birthplace` are one question.
    return _PAST_EN.search(" ".join(question.words)) is not None


def _timeless(asked: Question, known: Question) -> bool:
    # Who invented a thing and who was its inventor: deeds that are done are asked for in either tense.
    return asked.kind == known.kind == "who" and "will" not in {*asked.words, *known.words}


def _times_of_year_or_day(question: Question) -> list[str]:
    return sorted("autumn" if word == "the fall" else word for word in _YEARLESS.findall(question.text.lower()))
