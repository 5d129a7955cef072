"""What holds of every decision, and of every way through the candidates."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tiermesh.router.facts import RequestFacts
from tiermesh.router.policy.candidates import SURELY_TOO_LONG, Classification, decide
from tiermesh.router.policy.gain import RightProbabilities
from tiermesh.shared.config import parse_config

KINDS = ["greeting", "faq", "qa", "code", "math", "unspecified"]
some_kinds = st.lists(st.sampled_from(KINDS), max_size=2, unique=True)
tier = st.fixed_dictionaries(
    {
        "backend": st.sampled_from(["rules", "vllm"]),
        "model": st.sampled_from(["small", "large"]),
        "context_tokens": st.integers(600, 9000),
        "answer_tokens": st.integers(1, 500),
        "max_complexity": st.floats(0, 1),
        "price_in": st.floats(0, 5),
        "price_out": st.floats(0, 5),
        "strength": st.none() | st.floats(0, 1),
        "task_types": some_kinds,
        "excluded_task_types": some_kinds,
        "languages": st.lists(st.sampled_from(["zh", "en"]), max_size=1),
    }
)


@st.composite
def situations(draw):
    tiers = [{"name": f"l{n}", **fields} for n, fields in enumerate(draw(st.lists(tier, min_size=1, max_size=5)))]
    config = parse_config({"tenants": [{"name": "a", "key_env": "K"}], "tiers": tiers}, Path("/x/mesh.yaml"))
    facts = RequestFacts(
        draw(st.integers(0, 10_000)), draw(st.none() | st.integers(1, 10_000)), draw(st.booleans()), draw(st.booleans())
    )
    classification = draw(
        st.none()
        | st.builds(
            Classification,
            task_type=st.sampled_from(KINDS),
            complexity=st.floats(0, 1),
            source=st.just("rules"),
            languages=st.lists(st.sampled_from(["zh", "en"]), max_size=2, unique=True).map(tuple),
            prompt_tokens=st.integers(0, 10_000),
            answer_tokens=st.integers(0, 2000),
            right=st.none() | st.builds(RightProbabilities, st.floats(0, 1), st.floats(0, 1), st.just("outcomes")),
        )
    )
    model = draw(st.sampled_from(["auto", "", *(f"tier:{t['name']}" for t in tiers), *(t["model"] for t in tiers)]))
    down = frozenset(draw(st.sets(st.sampled_from([t["name"] for t in tiers]))))
    return config, facts, classification, model, down


def run(situation):
    config, facts, classification, model, down = situation
    return decide(facts, model=model, classification=classification, config=config, unavailable=down)


@given(situations())
def test_no_tier_is_tried_twice_and_pins_never_move(situation):
    config, _, _, model, _ = situation
    decision = run(situation)
    names = [t.name for t in decision.candidates]
    assert len(set(names)) == len(names)
    if model not in {"", "auto"}:
        assert decision.pinned
        assert len(names) <= 1
        assert all(model in {f"tier:{name}", config.tier(name).public_model} for name in names)


@given(situations())
def test_verdicts_and_candidates_agree(situation):
    config = situation[0]
    decision = run(situation)
    assert [v.tier for v in decision.verdicts] == [t.name for t in config.tiers]
    assert {v.tier for v in decision.verdicts if v.eligible} == {t.name for t in decision.candidates}
    assert (decision.refusal is None) == bool(decision.candidates)
    assert all(v.reason for v in decision.verdicts)
    assert decision.reasons


@given(situations())
def test_every_candidate_holds_the_request_and_may_serve_it(situation):
    _, facts, classification, _, _ = situation
    decision = run(situation)
    tokens = (classification.prompt_tokens if classification else 0) or facts.prompt_tokens
    for candidate in decision.candidates:
        asked = min(facts.max_tokens or 256, candidate.answer_tokens)
        uncertain = any(reason.startswith("context_uncertain") for reason in decision.reasons)
        assert tokens * (SURELY_TOO_LONG if uncertain else 1) + asked <= candidate.context_tokens
        if not decision.pinned:
            assert decision.task_type not in candidate.excluded_task_types
            assert not candidate.task_types or decision.task_type in candidate.task_types


@given(situations())
def test_weaker_tiers_come_after_all_that_are_strong_enough(situation):
    *rest, _ = situation
    decision = run((*rest, frozenset()))
    weaker = [t.name in decision.last_resort for t in decision.candidates]
    assert weaker == sorted(weaker)
    if decision.candidates and not decision.pinned:
        order = [t.name for t in decision.candidates if t.name not in decision.last_resort]
        assert order == sorted(order)


@given(situations())
def test_the_same_facts_give_the_same_decision(situation):
    assert run(situation) == run(situation)


@given(situations())
def test_a_failed_tier_only_changes_the_order(situation):
    *rest, _ = situation
    assert {t.name for t in run(situation).candidates} == {t.name for t in run((*rest, frozenset())).candidates} or run(
        situation
    ).pinned


@given(situations())
def test_the_first_choice_is_the_tier_that_is_worth_most_where_that_is_known(situation):
    config, facts, classification, model, _ = situation
    decision = decide(facts, model=model, classification=classification, config=config)
    without = classification and replace(classification, right=None)
    plain = decide(facts, model=model, classification=without, config=config)
    assert {t.name for t in decision.candidates} == {t.name for t in plain.candidates}, (
        "gain orders, and rules nothing out"
    )
    if not decision.gains:
        assert decision == plain
        return
    first, *rest = decision.candidates or [None]
    if first is not None and first.backend != "rules":
        assert all(
            decision.gains[first.name].worth >= decision.gains[t.name].worth for t in rest if t.name in decision.gains
        )
