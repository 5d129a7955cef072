"""When the store is tried."""

from tiermesh.cache.circuit import Admission, Circuit
from tiermesh.shared.testing import FakeClock


def opened(clock):
    circuit = Circuit(clock, threshold=3, first_pause_s=0.1, longest_pause_s=0.5)
    for _ in range(3):
        circuit.failed(circuit.admit())
    return circuit


def test_it_opens_after_failures_in_a_row_only():
    circuit = Circuit(FakeClock(), threshold=3)
    for outcome in (circuit.failed, circuit.failed, circuit.succeeded, circuit.failed, circuit.failed):
        assert circuit.admit() is Admission.PASSED
        outcome(Admission.PASSED)
    assert not circuit.is_open
    circuit.failed(circuit.admit())
    assert circuit.is_open
    assert circuit.admit() is Admission.REFUSED


def test_one_probe_at_a_time_after_a_pause():
    clock = FakeClock()
    circuit = opened(clock)
    clock.advance(0.099)
    assert circuit.admit() is Admission.REFUSED
    clock.advance(0.002)
    assert [circuit.admit() for _ in range(3)] == [Admission.PROBE, Admission.REFUSED, Admission.REFUSED]


def test_a_probe_in_time_closes_it_and_resets_the_pause():
    clock = FakeClock()
    circuit = opened(clock)
    clock.advance(0.11)
    circuit.failed(circuit.admit())
    clock.advance(0.21)
    circuit.succeeded(circuit.admit())
    assert circuit.admit() is Admission.PASSED
    for _ in range(3):
        circuit.failed(Admission.PASSED)
    clock.advance(0.11)
    assert circuit.admit() is Admission.PROBE


def test_pauses_double_up_to_a_bound():
    clock = FakeClock()
    circuit = opened(clock)
    for pause in (0.1, 0.2, 0.4, 0.5, 0.5):
        clock.advance(pause - 0.001)
        assert circuit.admit() is Admission.REFUSED
        clock.advance(0.002)
        probe = circuit.admit()
        assert probe is Admission.PROBE
        circuit.failed(probe)


def test_an_abandoned_probe_leaves_room_for_the_next():
    clock = FakeClock()
    circuit = opened(clock)
    clock.advance(0.11)
    circuit.abandoned(circuit.admit())
    assert circuit.admit() is Admission.PROBE


def test_calls_from_before_it_opened_do_not_lengthen_the_pause():
    clock = FakeClock()
    circuit = opened(clock)
    clock.advance(0.09)
    circuit.failed(Admission.PASSED)
    clock.advance(0.02)
    assert circuit.admit() is Admission.PROBE
    circuit.failed(Admission.PASSED)
    assert circuit.admit() is Admission.REFUSED
    circuit.abandoned(Admission.PASSED)
    assert circuit.admit() is Admission.REFUSED


def test_a_late_call_that_was_in_time_closes_it():
    circuit = opened(FakeClock())
    circuit.succeeded(Admission.PASSED)
    assert circuit.admit() is Admission.PASSED
