"""A changed rules file takes effect; a broken one does not."""

import asyncio
import contextlib

import pytest
from harness.eventually import eventually
from tiermesh.shared.rules import CurrentRules, follow_rules, follow_rules_file, load_rules

GOOD = "rules:\n  - {name: one, any: [x], complexity: 0.3}\n"
CONFIG = "tenants: [{name: local, key_env: KEY}]\ntiers: [{name: l0, backend: rules}]\n"


@contextlib.asynccontextmanager
async def following(work):
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.parametrize("by_config", [True, False])
async def test_a_replaced_file_takes_effect(tmp_path, by_config):
    path, config = tmp_path / "rules.yaml", tmp_path / "mesh.yaml"
    path.write_text(GOOD, encoding="utf-8")
    config.write_text(CONFIG, encoding="utf-8")
    current = CurrentRules(load_rules(path))
    async with following(follow_rules(current, config, {}) if by_config else follow_rules_file(current, path)):
        fresh = path.with_suffix(".new")
        for complexity in (0.7, 0.8):
            # The first comes perhaps before anyone watches, and takes effect too.
            fresh.write_text(GOOD.replace("0.3", str(complexity)), encoding="utf-8")
            fresh.replace(path)

            async def in_force(complexity: float = complexity) -> bool:
                return current.book.rules[0].spec.complexity == complexity

            await eventually(in_force)


async def test_a_broken_file_leaves_the_last_good_one(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text(GOOD, encoding="utf-8")
    current = CurrentRules(load_rules(path))
    good = current.book
    for broken in ("rules: [", "rools: []"):
        path.write_text(broken, encoding="utf-8")
        await current.refresh(path)
        assert current.book is good
    path.unlink()
    await current.refresh(path)
    assert current.book is good
    path.write_text("# a comment\n" + GOOD, encoding="utf-8")
    await current.refresh(path)
    assert current.book is good
