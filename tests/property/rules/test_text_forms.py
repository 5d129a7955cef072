"""What holds for every text there is."""

from dataclasses import dataclass
from pathlib import Path

import regex
from hypothesis import assume, given
from hypothesis import strategies as st
from tiermesh.shared.rules import (
    TokenWeights,
    detect_languages,
    estimate_tokens,
    fold,
    load_rules,
    match_fixed,
    measure,
    phrase_key,
)
from tiermesh.shared.rules.languages import _HAN_RUNS, _PLAIN
from tiermesh.shared.rules.text import _UNWRITTEN, unify

BOOK = load_rules(Path(__file__).parents[3] / "mesh" / "profiles" / "rules.yaml")
PHRASES = sorted(BOOK.phrases)
ANY_TEXT = st.text(max_size=300) | st.text(alphabet="aA ｂＢ?？!！。、,，'’“\n\r\t\u200b你好가かк😀0９%+-", max_size=60)
DECORATION = st.text(alphabet='!?.,;:~…。！？，、 ()[]"“”😊👋\n', max_size=6)
WIDE = {chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)} | {" ": "\u3000"}


@dataclass(frozen=True)
class Message:
    role: str
    content: str


def fixed(text):
    return match_fixed(BOOK, [Message("user", text)])


@given(ANY_TEXT)
def test_forms_are_idempotent(text):
    assert fold(fold(text)) == fold(text)
    assert phrase_key(phrase_key(text)) == phrase_key(text)
    assert phrase_key(fold(text)) == phrase_key(text)


@given(ANY_TEXT)
def test_nothing_raises(text):
    languages = detect_languages(text)
    assert len(set(languages)) == len(languages)
    assert estimate_tokens(measure(text), TokenWeights()) >= (1 if text else 0)
    fixed(text)


@given(ANY_TEXT, ANY_TEXT)
def test_more_text_is_never_fewer_tokens(one, more):
    weights = TokenWeights()
    assert estimate_tokens(measure(one + more), weights) >= estimate_tokens(measure(one), weights) - 1


@given(st.sampled_from(PHRASES), DECORATION, DECORATION, st.booleans(), st.booleans())
def test_case_width_and_punctuation_around_do_not_matter(phrase, before, after, upper, wide):
    shown = phrase.upper() if upper else phrase
    if wide:
        shown = "".join(WIDE.get(char, char) for char in shown)
    assert fixed(f"{before}{shown}{after}") == BOOK.phrases[phrase].answer


@given(st.sampled_from(PHRASES), st.sampled_from(["x", "7", "不", "not", "kenne", "码"]), st.booleans())
def test_one_word_more_is_another_question(phrase, word, in_front):
    text = f"{word} {phrase}" if in_front else f"{phrase} {word}"
    assume(phrase_key(text) not in BOOK.phrases)
    assert fixed(text) is None


@given(ANY_TEXT)
def test_an_answer_is_only_ever_one_of_the_file_or_a_label_of_the_prompt(text):
    answer = fixed(text)
    if answer is not None:
        assert answer in {phrase.answer for phrase in BOOK.phrases.values()} or answer.text in text


# The planes between have no characters.
EVERY_CHAR = "".join(chr(code) for code in (*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xE1000)))


def test_what_is_taken_out_as_invisible_is_what_unicode_calls_so():
    assert set(_UNWRITTEN.sub("", EVERY_CHAR)) == set(regex.sub(r"[\p{Cf}\ufe0e\ufe0f]", "", EVERY_CHAR))


def test_the_quick_way_to_languages_is_taken_only_past_letters_that_it_knows():
    known = regex.compile(r"[a-zA-Z\p{Han}]")
    for char in regex.findall(r"[\p{L}\p{M}々〇’]", EVERY_CHAR):
        if _PLAIN.fullmatch(char):
            assert known.match(char)
            assert char.isascii() or _HAN_RUNS.fullmatch(char)


@given(ANY_TEXT)
def test_a_text_with_one_width_and_set_of_marks_folds_to_the_same(text):
    assert fold(unify(text).strip()) == fold(text)
