"""Which languages a text is written in, by its scripts and, for the Latin script, its small words.

Right for English, Chinese (simplified and traditional alike) and their mixtures, and for languages
with a script of their own. Spanish, French, German, Italian, Portuguese, Dutch and Vietnamese are
told apart by frequent words and letters, as far as those reach; other languages in the Latin script are `und`.
Code, numbers and emoji are no language.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping

import regex

UNDETERMINED = "und"
"""A language, but which one could not be said."""

_HEAD, _TAIL = 1200, 600
_MIN_SHARE = 0.2
_KANA_SHARE = 0.08
_CODE = regex.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|(?<!\S)\S{1,64}@\S+", regex.DOTALL)
_CODE_SIGNS = ("`", "://", "@")
_ASCII_WORDS = re.compile(r"[a-z]++(?:'[a-z]++)*+")
# Nothing but ASCII, Chinese characters and punctuation: no kana to look for, and no letters of other scripts.
_PLAIN = re.compile(
    r"[\x00-\x7f\u2010-\u2018\u201a-\u2027\u3001-\u3003\u3008-\u3020\u4e00-\u9fff\uff01-\uff06\uff08-\uff20\uff3b-\uff40"
    r"\uff5b-\uff65\U0001f300-\U0001f5ff\U0001f600-\U0001f64f]*+"
)
_HAN_RUNS = re.compile(r"[\u4e00-\u9fff]+")
_CLAUSES = regex.compile(r"[\n。．！？!?；;：:“”\"「」]+|\.\s")
_RUNS = regex.compile(
    r"""
    (?P<latin>[\p{Latin}\p{Mn}]++(?:['’][\p{Latin}\p{Mn}]++)*+)
  | (?P<han>[\p{Han}々〇]++)
  | (?P<kana>[\p{Hiragana}\p{Katakana}ー]++)
  | (?P<hangul>\p{Hangul}++)
  | (?P<cyrillic>\p{Cyrillic}++)
  | (?P<arabic>[\p{Arabic}\p{Mn}]++)
  | (?P<other>\p{L}[\p{L}\p{M}]*+)
    """,
    regex.VERBOSE,
)
_SCRIPTS = tuple(
    (regex.compile(rf"\p{{{script}}}"), code)
    for script, code in (
        ("Greek", "el"), ("Hebrew", "he"), ("Thai", "th"), ("Devanagari", "hi"), ("Bengali", "bn"),
        ("Tamil", "ta"), ("Telugu", "te"), ("Gujarati", "gu"), ("Gurmukhi", "pa"), ("Kannada", "kn"),
        ("Malayalam", "ml"), ("Sinhala", "si"), ("Lao", "lo"), ("Khmer", "km"), ("Myanmar", "my"),
        ("Georgian", "ka"), ("Armenian", "hy"), ("Ethiopic", "am"),
    )
)  # fmt: skip
_UKRAINIAN = frozenset("іїєґІЇЄҐ")
_PERSIAN = frozenset("پچژگ")
_URDU = frozenset("ٹڈڑےں")
_VIETNAMESE = frozenset("ăđơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ")

_SMALL_WORDS = {
    "en": "the of and to in is are was were be a an i you he she it we they my your this that these those for on with as "
    "at by from or not what how why when where who which do does did can could would should please me hello hi hey thanks "
    "thank help write explain make give tell about if have has i'm it's don't what's more than between into will",
    "es": "el los las una unos de del que y en por para con como qué cómo cuál dónde cuándo quién es está están son ser soy "
    "mi tu su hola gracias buenos buenas días puedo puede quiero necesito pero más muy este esta también",
    "fr": "le les des du un une et est sont dans pour avec sur que qui quoi comment pourquoi où je tu il elle nous vous ils ne "
    "pas mon ma mes votre bonjour merci salut cette ce c'est j'ai d'un l'on suis êtes peux pouvez très aussi au aux",
    "de": "der die das und ist sind nicht ein eine einen dem den wie was warum wo wann wer ich du er sie wir ihr mein meine mit "
    "für auf von zu im hallo danke guten tag kann können möchte bitte auch aber oder wird werden über",
    "it": "il lo gli della di che e è sono per con come cosa perché dove quando chi io noi voi mio mia ciao grazie buongiorno "
    "questo questa posso puoi anche ma non più nel alla",
    "pt": "o os uma um da do das dos que e é são em para com como qual onde quando quem eu você nós meu minha olá obrigado "
    "obrigada bom dia não mais isso este esta posso também ao",
    "nl": "het een van en is zijn niet ik jij hij wij jullie hoe wat waarom waar wanneer wie mijn met voor op aan hallo dank "
    "goedemorgen kan kunnen graag ook maar deze dit naar",
}
_LANGUAGES_OF: dict[str, tuple[str, ...]] = {}
for _language, _words in _SMALL_WORDS.items():
    for _word in _words.split():
        _LANGUAGES_OF[_word] = (*_LANGUAGES_OF.get(_word, ()), _language)

DETECTED = frozenset(
    {*_SMALL_WORDS, *(code for _, code in _SCRIPTS), "zh", "ja", "ko", "ru", "uk", "ar", "ur", "fa", "vi", UNDETERMINED}
)
"""Every code that `detect_languages` can return."""


def detect_languages(text: str) -> tuple[str, ...]:
    """Returns the ISO 639-1 codes of a text's languages, most frequent first.

    A second language counts from a fifth of the text on; single foreign terms inside a sentence
    (`用 Python 写`) do not make one. Only the beginning and the end of a long text are looked at.

    Returns:
        Empty for text without natural language; `und` stands for a language that is not known.
    """
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]}\n{text[-_TAIL:]}"
    weights: dict[str, float] = defaultdict(float)
    latin: Counter[str] = Counter()
    if any(sign in text for sign in _CODE_SIGNS):
        text = _CODE.sub("\n", text)
    if text.isascii():
        latin.update(_ASCII_WORDS.findall(text.lower()))
    elif _PLAIN.fullmatch(text):
        latin.update(_ASCII_WORDS.findall(text.lower()))
        han = sum(map(len, _HAN_RUNS.findall(text)))
        if han:
            weights["zh"] = han
    else:
        # Clauses tell Chinese and Japanese passages apart.
        for clause in _CLAUSES.split(text):
            if clause:
                _weigh(clause, weights, latin)
        _tell_apart(text, weights)
    terms = sum(_latin_weight(word) * count for word, count in latin.items())
    if terms:
        language, evidence = _latin_language(latin)
        rest = sum(weights.values())
        if not rest or terms >= rest or (evidence and terms >= _MIN_SHARE * (terms + rest)):
            weights[language] += terms
    total = sum(weights.values())
    return tuple(
        code for code, weight in sorted(weights.items(), key=lambda item: -item[1]) if weight >= _MIN_SHARE * total
    )


def _weigh(clause: str, weights: dict[str, float], latin: Counter[str]) -> None:
    if clause.isascii():
        latin.update(_ASCII_WORDS.findall(clause.lower()))
        return
    han = kana = 0
    for match in _RUNS.finditer(clause):
        run, kind = match.group(), match.lastgroup
        if kind == "latin":
            latin[run.lower()] += 1
        elif kind == "han":
            han += len(run)
        elif kind == "kana":
            kana += len(run)
        else:
            weights[_by_script(run, kind)] += len(run)
    if kana and kana >= _KANA_SHARE * (han + kana):
        weights["ja"] += han + kana
    elif han:
        weights["zh"] += han


def _by_script(run: str, kind: str | None) -> str:
    if kind == "hangul":
        return "ko"
    if kind == "cyrillic":
        return "ru"
    if kind == "arabic":
        return "ar"
    return next((code for script, code in _SCRIPTS if script.search(run)), UNDETERMINED)


def _tell_apart(text: str, weights: dict[str, float]) -> None:
    """Renames the languages that share a script with a more frequent one, by letters of their own."""
    for shared, letters, language in (("ru", _UKRAINIAN, "uk"), ("ar", _URDU, "ur"), ("ar", _PERSIAN, "fa")):
        if shared in weights and not letters.isdisjoint(text):
            weights[language] = weights.pop(shared)


def _latin_weight(word: str) -> float:
    # A word says about as much as two or three Chinese characters.
    return min(len(word), 5) / 2


def _latin_language(words: Mapping[str, int]) -> tuple[str, bool]:
    """Names the most likely language in the Latin script, and whether anything but the script speaks for it."""
    hits: Counter[str] = Counter()
    for word, count in words.items():
        for language in _LANGUAGES_OF.get(word.replace("’", "'"), ()):
            hits[language] += count
    joined = "".join(words)
    if not joined.isascii() and len(_VIETNAMESE.intersection(joined)) > 1:
        return "vi", True
    if hits:
        best = max(hits.values())
        # English first where they tie: it is by far the most frequent.
        return next(language for language in _SMALL_WORDS if hits[language] == best), True
    return ("en" if joined.isascii() else UNDETERMINED), False
