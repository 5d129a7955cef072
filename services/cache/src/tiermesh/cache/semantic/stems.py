"""English words without their endings, as far as that is safe."""

from __future__ import annotations

import re

from tiermesh.cache.semantic.wordnet import is_verb

_KEPT = frozenset({
    "always", "business", "class", "news", "less", "does", "has", "is", "was", "this", "his", "bus", "gas", "yes", "us",
    "plus", "thing", "king", "ring", "spring", "string", "morning", "evening", "during", "bed", "red", "need", "speed",
    "seed", "feed", "bring", "sing", "wing", "nothing", "something", "anything", "everything", "paris", "series",
    "access", "address", "process", "wireless", "virus", "status", "focus", "bonus", "texas", "kansas", "illinois",
    "axis", "basis", "coming", "analysis", "diabetes", "sugars", "indeed", "embed", "hundred", "sacred", "ceiling", "sibling",
    # More of them is another thing: damage and damages, glass and glasses.
    "glasses", "damages", "customs", "goods", "arms", "clothes", "manners", "premises", "spirits", "contents", "proceeds", "savings",
    "earnings", "woods", "shorts", "tights", "odds", "belongings", "troops", "ashes", "quarters", "securities", "sales",
    "statistics", "ethics", "mechanics", "politics", "economics", "headquarters", "annals", "remains", "thanks",
})  # fmt: skip
_IRREGULAR = {
    "children": "child", "people": "person", "men": "man", "women": "woman", "mice": "mouse", "feet": "foot",
    "teeth": "tooth", "went": "go", "gone": "go", "goes": "go", "going": "go", "bought": "buy", "paid": "pay",
    "sent": "send", "lost": "lose", "losing": "lose", "forgot": "forget", "forgotten": "forget", "found": "find",
    "made": "make", "making": "make", "took": "take", "taken": "take", "taking": "take", "got": "get", "gotten": "get",
    "getting": "get", "broken": "break", "broke": "break", "stolen": "steal", "stole": "steal", "wrote": "write",
    "written": "write", "writing": "write", "spoke": "speak", "spoken": "speak", "began": "begin", "begun": "begin",
    "died": "die", "dies": "die", "dying": "die", "using": "use", "used": "use", "leaves": "leave", "left": "left",
    "knives": "knife", "wives": "wife", "potatoes": "potato", "tomatoes": "tomato", "best": "best", "moved": "move",
    "moving": "move", "won": "win", "winning": "win", "built": "build", "drank": "drink", "ate": "eat", "eaten": "eat",
    "grew": "grow", "grown": "grow", "kept": "keep", "slept": "sleep", "sold": "sell", "told": "tell", "felt": "feel",
}  # fmt: skip
_VOWELS = set("aeiou")
_SHORT_DOUBLE = 5
_NEEDS_E = re.compile(r"(?:[bcdfgkptz]l|[gq]u|tinu|nc|rc)$")
_SILENT = (
    "clud", "at", "iz", "us", "ag", "ang", "uc", "iv", "ov", "ac", "ur", "uir", "id", "ok", "ak", "ot", "it", "ar", "ir", "ulat",
    "let", "ik", "scal", "ibl", "abl", "olv", "as", "os", "in", "il", "ul", "eez",
)  # fmt: skip
"""Ends of words that lost an e before their ending."""
_WHOLE = (
    "eat", "oat", "ook", "eak", "oot", "ait", "eit", "edit", "visit", "credit", "deposit", "submit", "start", "ain", "ein",
    "oin", "ear", "oar", "eas", "rain", "ail", "oil", "ois", "uit", "limit", "chat", "format", "profit", "exit", "repair",
    "aid", "oid",
)  # fmt: skip
"""Ends of those among them that lost none."""


def stem(word: str) -> str:
    """Returns a word without plural and verb endings; unknown shapes stay as they are.

    Two words with one stem mean the same apart from number and tense. Prefixes and endings that
    change the meaning (`un-`, `-less`, `-er`) are left alone.
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) < 4 or word in _KEPT or not word.isascii():
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zzes")):
        return word[:-2]
    if word.endswith("oes") and len(word) > _SHORT_DOUBLE and not word.endswith(("shoes", "noes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending):
            return _without(word, ending)
    return word


def _without(word: str, ending: str) -> str:
    base = word[: -len(ending)]
    if len(base) < 3 or not any(letter in _VOWELS or letter == "y" for letter in base):
        return word
    if ending == "ed" and base.endswith("i"):
        return base[:-1] + "y"
    if base[-1] == base[-2] and base[-1] not in "lsz":
        return base[:-1]
    if is_verb(base + "e") and not is_verb(base):
        return base + "e"
    if is_verb(base) and not is_verb(base + "e"):
        return base
    if base.endswith("ell") and len(base) > _SHORT_DOUBLE:
        # `Cancelling` is cancel, `spelling` is spell.
        return base[:-1]
    # `changing` is change, `converting` is convert; no English word ends in v or u, or in a consonant and l.
    if base.endswith(("v", "rg", "dg")) or _NEEDS_E.search(base):
        return base + "e"
    if base.endswith(_SILENT) and not base.endswith(_WHOLE):
        return base + "e"
    return base
