"""What holds for examples and texts of any kind."""

from hypothesis import given
from hypothesis import strategies as st
from tiermesh.shared.rules.examples import ExampleIndex

TEXT = st.text(alphabet="ab cd'é中文の1!?\n", min_size=1, max_size=40)
GROUPS = st.dictionaries(st.sampled_from("xyz"), st.lists(TEXT, min_size=1, max_size=4), min_size=1)


@given(GROUPS, st.lists(TEXT, max_size=3), st.text(max_size=60) | TEXT)
def test_likeness_is_a_share_and_the_answer_is_a_label(groups, out_of_scope, text):
    index = ExampleIndex(groups, out_of_scope)
    found = index.nearest(text)
    assert 0 <= found.likeness <= 1
    assert found.lead <= found.likeness + 1e-9
    assert found.label is None or found.label in groups
    assert 0 <= index.threshold <= 1.0001
    assert index.nearest(text, among=["x"]).label in {None, "x"}


@given(GROUPS, TEXT)
def test_case_width_and_spacing_do_not_count(groups, text):
    index = ExampleIndex(groups)
    assert index.nearest(text.upper().replace(" ", "  ")) == index.nearest(text.upper())
