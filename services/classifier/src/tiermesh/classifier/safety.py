"""What in a text asks for care, by patterns in English and Chinese.

A flag is a reason to look, not a verdict: patterns find plain words, miss hints and slang, and also fire on texts that
only speak of such things. Nothing is blocked because of a flag.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiermesh.shared.rules import Patterns

FLAGS: Mapping[str, str] = {
    "self_harm": (
        r"\b(?:kill|hurt|cut|harm)(?:ing)? myself\b|\bend(?:ing)? my (?:own )?life\b|\b(?:commit(?:ting)? suicide|suicidal)\b"
        r"|\b(?:want|wish) to die\b|自杀|自殘|自残|轻生|不想活了|结束(?:我|自己)的生命"
    ),
    "weapons": (
        r"\b(?:build|make|making|assemble|3d.print) (?:a |an |my own )?(?:pipe bomb|bomb|explosives?|nerve agent|ghost gun|molotov)"
        r"|(?:制造|制作|自制|怎么做|组装)(?:炸弹|炸药|爆炸物|枪支|手枪|神经毒气|燃烧瓶)"
    ),
    "prompt_injection": (
        r"\b(?:ignore|disregard|forget) (?:all |any |the |your |of |these |those |my ){0,3}(?:previous|prior|above|earlier|system) (?:instructions?|prompts?|rules|messages?)"
        r"|\b(?:reveal|print|show|repeat|output) (?:me )?(?:your|the) (?:system|hidden|initial) (?:prompt|instructions?)"
        r"|(?:忽略|无视|忘记|忘掉)(?:之前|以上|前面|上面|先前|你)?的?(?:所有|全部|一切)?(?:的)?(?:指令|指示|提示词|规则|设定)"
        r"|(?:显示|输出|告诉我|打印|泄露)你?的?(?:系统提示词|系统提示|系统指令|初始指令)"
    ),
    "personal_data": (
        r"(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])|(?<!\d)[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dx](?!\d)"
        r"|(?<!\d)(?:\d{4}[ -]){3}\d{4}(?!\d)|\b(?:passport|social security|credit card) (?:number|no\.?) (?:is )?[:#]?\s?[a-z]{0,2}\d{5,}"
        r"|身份证号?码?[是为: ]{0,2}\d{15,17}"
    ),
}
_PATTERNS = Patterns(FLAGS.values())


def safety_flags(text: str) -> tuple[str, ...]:
    """Returns the flags of a folded text, in a fixed order."""
    search = _PATTERNS.search(text)
    return tuple(name for name, pattern in FLAGS.items() if search.found(_PATTERNS.number(pattern)))
