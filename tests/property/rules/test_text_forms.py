"""What holds for every text there is."""

from dataclasses import dataclass
from pathlib import Path

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
