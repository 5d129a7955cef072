"""Whatever the text, the model reads it, in bounded work, and says something sane."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiermesh.classifier.features import Turn, read_features
from tiermesh.classifier.model import LinearModel, load_builtin
from tiermesh.classifier.model.grams import MAX_CHARS, ROWS, WORD_ROWS, read_grams, window
from tiermesh.classifier.model.structure import NAMES, read_structure
from tiermesh.shared.rules import TokenWeights

ANY = st.text(max_size=300) | st.text(alphabet="ab你好。 1\n", max_size=300)


@pytest.fixture(scope="module")
def model():
    return LinearModel(load_builtin())


@given(text=ANY, times=st.sampled_from([1, 40]))
@settings(max_examples=60)
def test_predictions_are_finite_and_within_their_ranges(model, text, times):
    said = model.predict([read_features((Turn("user", text * times),), TokenWeights())])[0]
    shares = (
        said.task_confidence,
        said.complexity,
        said.complexity_confidence,
        said.answer_tokens_confidence,
        said.small_right,
        said.large_right,
    )
    assert all(0 <= share <= 1 for share in shares)
    assert 1 <= said.answer_tokens <= 5000


@given(text=ANY)
def test_pieces_are_distinct_rows_in_their_own_halves(text):
    grams = read_grams(text)
    assert (np.diff(grams.word_rows) > 0).all()
    assert (np.diff(grams.char_rows) > 0).all()
    assert ((grams.word_rows >= 0) & (grams.word_rows < WORD_ROWS)).all()
    assert ((grams.char_rows >= WORD_ROWS) & (grams.char_rows < ROWS)).all()
    assert (grams.char_values >= 1).all()


@given(text=ANY)
def test_structure_is_finite(text):
    numbers = read_structure(read_features((Turn("user", text),), TokenWeights()))
    assert numbers.shape == (len(NAMES),)
    assert np.isfinite(numbers).all()


@given(head=ANY, tail=ANY)
def test_a_long_text_is_read_from_both_ends(head, tail):
    text = head + "x" * MAX_CHARS + tail
    shown = window(text)
    assert len(shown) <= MAX_CHARS
    assert shown.startswith(head)
    assert shown.endswith(tail)
