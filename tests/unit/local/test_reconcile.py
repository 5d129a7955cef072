"""What is done about a changed configuration."""

from harness.local_plan import RULES, VLLM, plan
from tiermesh.mesh.local.reconcile import plan_changes
from tiermesh.mesh.local.supervision import Changes


def changes_between(before, after):
    """Returns the differences as supervisord would tell them."""
    return Changes(
        added=tuple(name for name in after if name not in before),
        changed=tuple(
            name
            for name in after
            if name in before
            and (before[name].command, before[name].digest, before[name].environ)
            != (after[name].command, after[name].digest, after[name].environ)
        ),
        removed=tuple(name for name in before if name not in after),
    )


def decide(before, after):
    return plan_changes(changes_between(before, after), before, after)


def test_nothing_changed_means_nothing_to_do():
    assert decide(plan(), plan()).is_empty


def test_more_replicas_are_started_and_nothing_else_is_touched():
    done = decide(plan(), plan(tiers=[{**RULES, "replicas": 3}, VLLM]))
    assert done.start == ("engine-l0-1", "engine-l0-2")
    assert not any((done.refused, done.move, done.restart, done.stop))


def test_fewer_replicas_are_stopped_and_nothing_else_is_touched():
    done = decide(plan(router={"replicas": 2}), plan())
    assert done.stop == ("router-1",)
    assert not any((done.refused, done.move, done.restart, done.start))


def test_a_changed_tier_is_restarted_replica_by_replica():
    before = plan(tiers=[{**RULES, "replicas": 2}, VLLM])
    after = plan(tiers=[{**RULES, "replicas": 2, "slots": 3}, VLLM])
    assert decide(before, after).restart == (("engine-l0-0", "engine-l0-1"),)


def test_two_changed_tiers_roll_side_by_side():
    after = plan(tiers=[{**RULES, "slots": 3}, {**VLLM, "slots": 3}])
    assert decide(plan(), after).restart == (("engine-l0-0",), ("engine-l1-0",))


def test_a_new_tier_at_the_end_starts_and_leaves_the_others_alone():
    done = decide(plan(), plan(tiers=[RULES, VLLM, {"name": "l2", "backend": "simulated", "model": "m"}]))
    assert done.start == ("engine-l2-0",)
    assert not any((done.move, done.restart))


def test_a_tier_put_in_between_moves_the_ones_behind_it():
    done = decide(plan(), plan(tiers=[RULES, {"name": "new", "backend": "simulated", "model": "m"}, VLLM]))
    assert done.start == ("engine-new-0",)
    assert done.move == ("engine-l1-0",)
    assert done.restart == ()


def test_other_ports_of_envoy_are_refused_as_a_whole():
    done = decide(plan(), plan(network={"admin_port": 9999}, router={"replicas": 2}))
    assert done.refused == ("envoy",)
    assert not any((done.start, done.move, done.restart, done.stop))


def test_a_cache_setting_restarts_the_cache_alone():
    assert decide(plan(), plan(cache={"ttl_s": 9})).restart == (("cache-0",),)
