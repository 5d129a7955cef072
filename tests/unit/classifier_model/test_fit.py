"""Fitting heads to sparse rows."""

import numpy as np
import scipy.sparse as sp
from fit import fit_ridge
from train import line_through, split


def test_ridge_agrees_with_the_closed_form():
    rng = np.random.default_rng(3)
    rows, targets = rng.normal(size=(40, 12)), rng.normal(size=(40, 3))
    weights, bias = fit_ridge(sp.csr_matrix(rows), targets, 2.5)
    centred = rows - rows.mean(axis=0)
    exact = np.linalg.solve(centred.T @ centred + 2.5 * np.eye(12), centred.T @ (targets - targets.mean(axis=0)))
    assert np.allclose(weights, exact, atol=2e-3)
    assert np.allclose(bias, targets.mean(axis=0) - rows.mean(axis=0) @ exact, atol=2e-3)


def test_folds_keep_groups_together_and_differ_in_size_by_little():
    groups = [f"g{at % 23}" for at in range(230)]
    folds = split(groups, 5, seed=1)
    assert all(
        len({fold for fold, group in zip(folds, groups, strict=True) if group == name}) == 1 for name in set(groups)
    )
    assert max(np.bincount(folds)) - min(np.bincount(folds)) <= 10


def test_a_calibration_line_makes_scores_right_on_average():
    truth = np.array([0.0, 0.0, 1.0, 1.0])
    slope, intercept = line_through(truth * 0.2 + 5, truth)
    assert np.allclose((truth * 0.2 + 5) * slope + intercept, truth)
    assert line_through(np.ones(4), truth) == (0.0, 0.5)
