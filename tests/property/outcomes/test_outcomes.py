"""What holds of any text, any distribution and any record."""

from __future__ import annotations

import math
import random

from harness.outcomes import make_record
from hypothesis import given
from hypothesis import strategies as st
from tiermesh.outcomes.drift.psi import chance_index, stability_index
from tiermesh.outcomes.drift.reference import make_reference
from tiermesh.outcomes.redaction import redact
from tiermesh.shared.outcomes import is_sampled, read_outcomes, write_outcome

TEXTS = st.text(max_size=200) | st.lists(
    st.sampled_from(
        ["138", "12345678", "@", "example.com", "姓名：", "张三", "4111 1111 ", "password is ", " ", "\n", "sk-", "<", ">", "10.0.0.1"]
    )
).map("".join)  # fmt: skip
COUNTS = st.lists(st.integers(0, 10_000), min_size=1, max_size=12)


@given(TEXTS)
def test_redaction_takes_any_text_and_counts_what_it_blots_out(text):
    redacted, counts = redact(text)
    assert all(count > 0 for count in counts.values())
    if not counts:
        assert redacted == text


@given(
    st.sampled_from(["13812345678", "a.b@example.com", "4111111111111111", "11010519491231002X"]), st.text(max_size=40)
)
def test_a_number_in_the_middle_of_any_words_is_found(secret, around):
    # Letters and digits that touch it would make it part of something else.
    text = f"{around} {secret} {around}" if secret not in around else secret
    assert secret not in redact(text)[0]


@given(COUNTS, st.integers(1, 50))
def test_the_index_of_a_distribution_with_itself_is_nothing_and_never_negative(counts, factor):
    assert stability_index(counts, counts) == 0
    assert stability_index(counts, [count * factor for count in counts]) >= 0
    assert math.isfinite(stability_index(counts, list(reversed(counts))))
    assert chance_index(len(counts), 100, 100) >= 0


@given(st.integers(0, 2**32), st.integers(1, 200), st.floats())
def test_every_number_falls_into_exactly_one_bin(seed, kinds, other):
    dice = random.Random(seed)
    some = [dice.choice((dice.random(), dice.gauss(0, 1e6), float(dice.randrange(3)))) for _ in range(kinds)]
    values = [dice.choice(some) for _ in range(150)]
    bins = make_reference([{"x": value} for value in values], since="", until="").features["x"]
    assert sum(bins.counts) == len(values)
    assert list(bins.edges) == sorted(set(bins.edges))
    assert 0 <= bins.place(other) < len(bins.counts)


@given(st.text(max_size=100), st.text(max_size=100), st.floats(0, 1), st.integers(0, 2**31 - 1))
def test_any_record_is_read_as_it_was_written(question, answer, score, tokens):
    record = make_record(1, question=question, answer=answer, scores=(score,))
    record.tries[0].usage.prompt_token_count = tokens
    assert list(read_outcomes([write_outcome(record)])) == [record]


@given(st.text(max_size=50), st.floats(0.0001, 1.0), st.floats(0.0001, 1.0))
def test_who_is_in_a_small_sample_is_in_a_larger_one(request_id, one, other):
    small, large = sorted([one, other])
    assert is_sampled(request_id, 1.0)
    if is_sampled(request_id, small):
        assert is_sampled(request_id, large)
