"""What the bandit keeps to, whatever it has learnt."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tiermesh.shared.bandit import NAMES, Option, Posterior, choose
from tiermesh.shared.bandit.choice import Settings

SHARE = st.floats(0, 1)


@st.composite
def worlds(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    names = ["a", "b", "c"][: draw(st.integers(2, 3))]
    options = tuple(Option(name, draw(SHARE), draw(SHARE)) for name in names)
    learnt = {}
    for name in draw(st.sets(st.sampled_from(names))):
        count = draw(st.integers(1, 40))
        learnt[name] = Posterior.fresh(draw(st.floats(0.5, 20))).seeing(
            rng.random((count, len(NAMES))), rng.uniform(-1, 1, count)
        )
    rails = Settings(draw(st.floats(0, 0.2)), draw(SHARE), draw(st.floats(0, 5)), draw(SHARE), 4.0)
    return options, rng.random(len(NAMES)), learnt, draw(st.sampled_from(names)), rails, draw(SHARE)


@given(worlds())
@settings(max_examples=200, deadline=None)
def test_guard_rails_hold(world):
    options, context, learnt, static, rails, dice = world
    choice = choose(options, context, learnt, static=static, settings=rails)
    chances = choice.probabilities
    names = [option.tier for option in options]
    assert set(chances) == set(names)
    assert abs(sum(chances.values()) - 1) < 1e-9
    assert all(chance >= 0 for chance in chances.values())
    assert 1 - chances[choice.preferred] <= rails.exploration + 1e-9
    assert chances[choice.draw(dice)] > 0 or choice.draw(dice) == choice.preferred
    for weaker in names[: names.index(static)]:
        belief = choice.beliefs[weaker]
        if chances[weaker] > 0:
            assert belief.right + belief.doubt >= rails.floor
        if choice.preferred == weaker:
            assert belief.right - belief.doubt >= rails.floor
    if not learnt:
        assert choice.preferred == static
