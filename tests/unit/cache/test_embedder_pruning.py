"""What a product can spare of its inputs, and how what is kept makes up for it."""

import numpy as np
import pytest
from tiermesh.cache.embedder_calibration import calibration_texts, pruning_texts
from tiermesh.cache.embedder_pruning import HEADS, UNITS, choose


def moments_of(inputs):
    with_one = np.append(inputs, np.ones((len(inputs), 1)), axis=1)
    return with_one.T @ with_one


def drawn(inputs, outputs):
    draw = np.random.default_rng(5)
    return draw.normal(0.3, 1, (4000, inputs)), draw.normal(0, 1, (inputs, outputs)), draw.normal(0, 1, outputs)


def error(values, weight, bias, kept):
    """Share of the output's variance that is lost."""
    before, after = values @ weight + bias, values[:, kept.inputs] @ kept.weight + kept.bias
    return ((before - after) ** 2).sum() / ((before - before.mean(axis=0)) ** 2).sum()


@pytest.mark.parametrize("together", [1, 3])
def test_inputs_that_others_can_replace_go_first(together):
    values, weight, bias = drawn(12, 5)
    # The weights alone do not show it: theirs are the largest.
    values[:, [2, 7, 9]] = values[:, [0, 1, 3]] + 0.5 * values[:, [4, 5, 6]]
    weight[[2, 7, 9]] *= 3
    kept = choose(moments_of(values), weight, bias, size=1, count=9, together=together)
    assert len(kept.inputs) == 9
    assert error(values, weight, bias, kept) < 1e-3


def test_an_input_that_never_changes_goes_into_the_bias():
    values, weight, bias = drawn(6, 3)
    values[:, 4] = 2.5
    kept = choose(moments_of(values), weight, bias, size=1, count=5, together=1)
    assert list(kept.inputs) == [0, 1, 2, 3, 5]
    assert error(values, weight, bias, kept) < 1e-3


def test_inputs_that_belong_together_go_or_stay_together():
    values, weight, bias = drawn(12, 4)
    values[:, 4:8] *= 0.05
    kept = choose(moments_of(values), weight, bias, size=4, count=2, together=1)
    assert list(kept.inputs) == [0, 1, 2, 3, 8, 9, 10, 11]
    assert error(values, weight, bias, kept) < 0.01


def test_what_is_kept_does_better_fitted_anew_than_as_it_was():
    values, weight, bias = drawn(16, 4)
    values += 2 * np.random.default_rng(6).normal(0, 1, (4000, 1))
    kept = choose(moments_of(values), weight, bias, size=1, count=12, together=2)
    as_it_was = type(kept)(kept.inputs, weight[kept.inputs], bias)
    assert error(values, weight, bias, kept) < 0.5 * error(values, weight, bias, as_it_was)


def test_nothing_to_leave_out_changes_nothing():
    values, weight, bias = drawn(6, 3)
    kept = choose(moments_of(values), weight, bias, size=1, count=6, together=1)
    np.testing.assert_allclose(kept.weight, weight, atol=1e-5)
    np.testing.assert_allclose(kept.bias, bias, atol=1e-5)


def test_there_are_far_more_texts_to_fit_on_than_to_measure_ranges_on():
    assert len(set(pruning_texts())) > 5 * len(set(calibration_texts()))
    assert len(HEADS) == len(UNITS) == 6
