"""What holds of every ledger, however a request ended."""

from __future__ import annotations

import pytest

TOLERANCE_MS = 5.0


def ms(duration):
    """Returns a protobuf duration in milliseconds."""
    return duration.ToNanoseconds() / 1e6


def parts_ms(parts):
    """Returns the parts that are not zero, by name, in milliseconds."""
    return {field.name: ms(value) for field, value in parts.ListFields()}


def check_ledger(ledger):
    """Checks that parts sum to the total, of the whole and of every hop, and that budgets add up."""
    assert ms(ledger.total) > 0
    assert sum(parts_ms(ledger.parts).values()) == pytest.approx(ms(ledger.total), abs=TOLERANCE_MS)
    for hop in ledger.hops:
        assert sum(parts_ms(hop.parts).values()) == pytest.approx(ms(hop.total), abs=TOLERANCE_MS)
        assert ms(hop.budget_out) == pytest.approx(max(0.0, ms(hop.budget_in) - ms(hop.total)), abs=TOLERANCE_MS)
        assert ms(hop.budget_in) <= ms(ledger.budget_in)
        assert ms(hop.overlapped) <= ms(hop.total) + 0.001
    starts = [ms(hop.start) for hop in ledger.hops]
    assert starts == sorted(starts)


def check_engine_hops(done):
    """Checks that what engines told of their time is what the ledger says of it, and that the rest is the way there."""
    hops = [hop for hop in done.ledger.hops if hop.name == "engine"]
    assert [hop.tier for hop in hops] == [attempt.tier for attempt in done.attempts]
    for hop, attempt in zip(hops, done.attempts, strict=True):
        assert hop.outcome == attempt.outcome
        if not attempt.HasField("timing"):
            continue
        told = {
            name: ms(getattr(attempt.timing, name)) for name in ("queue", "tokenize", "prefill", "decode", "detokenize")
        }
        seen = {name: ms(getattr(hop.parts, name)) for name in told}
        assert seen == pytest.approx(told, abs=TOLERANCE_MS)
        assert ms(hop.parts.network) == pytest.approx(ms(hop.total) - sum(told.values()), abs=TOLERANCE_MS)
