"""Drift as the running log measures it."""

from harness.outcomes import make_record, running_log
from tiermesh.outcomes.drift.features import features_of
from tiermesh.outcomes.drift.reference import make_reference, write_reference


def traffic(count, *, start=0, complexity=0.1):
    return [make_record(start + n, complexity=complexity + n % 10 / 100) for n in range(count)]


async def test_the_log_measures_the_newest_requests_also_after_a_restart(tmp_path):
    reference = tmp_path / "reference.json"
    made = make_reference([features_of(record) for record in traffic(500)], since="", until="")
    reference.write_text(write_reference(made), encoding="utf-8")
    settings = {"drift_reference": reference, "drift_window": 200}
    async with running_log(tmp_path, **settings) as log:
        await log.record(*traffic(300))
        before = {each.feature: each for each in (await log.status()).drift}
        assert before["complexity"].state == "ok"
        assert (before["complexity"].window_count, before["complexity"].reference_count) == (200, 500)
        await log.record(*traffic(150, start=1000, complexity=0.8))
        after = (await log.status()).drift
        assert (after[0].feature, after[0].state) == ("complexity", "drift")
        assert after[0].psi > 0.25 > after[0].chance
    async with running_log(tmp_path, **settings) as log:
        again = (await log.status()).drift
        assert list(again) == list(after)
