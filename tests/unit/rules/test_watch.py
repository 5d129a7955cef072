"""A changed rules file takes effect; a broken one does not."""

import asyncio
import contextlib

import pytest
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


async def changed(current, path, text):
    """Writes until the change is noticed: there is no event for a watcher that has begun."""
    was = current.book
    async with asyncio.timeout(10):
        while current.book is was:
            fresh = path.with_suffix(".new")
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(path)
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("by_config", [True, False])
async def test_a_replaced_file_takes_effect(tmp_path, by_config):
    path, config = tmp_path / "rules.yaml", tmp_path / "mesh.yaml"
    path.write_text(GOOD, encoding="utf-8")
    config.write_text(CONFIG, encoding="utf-8")
    current = CurrentRules(load_rules(path))
    async with following(follow_rules(current, config, {}) if by_config else follow_rules_file(current, path)):
        await changed(current, path, GOOD.replace("0.3", "0.7"))
        assert current.book.rules[0].spec.complexity == 0.7


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
