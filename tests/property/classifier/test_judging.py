"""Every conversation is judged, within bounds."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tiermesh.classifier.features import HEAD_CHARS, TAIL_CHARS, Turn, read_features
from tiermesh.classifier.judge import judge
from tiermesh.shared.rules import load_rules

BOOK = load_rules(Path(__file__).parents[3] / "mesh" / "profiles" / "rules.yaml")
TURNS = st.builds(
    Turn,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.text(max_size=200) | st.sampled_from(["hello", "写代码", "1+1", "```", "translate this", ""]),
    st.sampled_from(["", 'f {"a": 1}']),
)


@given(st.lists(TURNS, max_size=6))
def test_any_conversation_is_judged(turns):
    features = read_features(turns, BOOK.token_weights)
    judgement = judge(BOOK, turns, features, tenant="x")
    assert 0 <= judgement.complexity <= 1
    assert 0 <= judgement.confidence <= 1
    assert len(set(judgement.rules)) == len(judgement.rules)
    assert (judgement.source == "default") <= (judgement.task_type == "chat")
    assert judge(BOOK, turns, features, tenant="x") == judgement
    assert all(value >= 0 for value in features.numbers().values())


@given(st.text(min_size=1, max_size=50), st.integers(0, 400))
def test_what_patterns_see_is_bounded(unit, times):
    features = read_features((Turn("user", unit * times),), BOOK.token_weights)
    # NFKC writes one character as up to 18.
    assert len(features.text) <= 18 * (HEAD_CHARS + TAIL_CHARS + 1)
