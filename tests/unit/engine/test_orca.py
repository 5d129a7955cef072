import pytest
from tiermesh.engine.load import Load
from tiermesh.engine.orca import load_report, report_interval

orca = pytest.importorskip("xds.data.orca.v3.orca_load_report_pb2")
service = pytest.importorskip("xds.service.orca.v3.orca_pb2")


def report(running: int, waiting: int = 0, slots: int = 4):
    load = Load(running, waiting, slots, 64, kv_cache_utilization=0.25, aborted=0, generated_tokens=0)
    return orca.OrcaLoadReport.FromString(load_report(load))


def test_the_official_message_reads_what_we_write():
    read = report(running=4, waiting=2)
    assert (read.mem_utilization, read.rps_fractional) == (0.25, 4.0)
    assert dict(read.named_metrics) == {"kv_cache_util": 0.25, "waiting": 2.0}
    assert read.application_utilization == 1.25


def test_a_full_replica_weighs_half_of_an_idle_one_and_a_backlog_less():
    def weight(read) -> float:
        return read.rps_fractional / read.application_utilization

    assert weight(report(0)) == 2 * weight(report(4))
    assert weight(report(4, waiting=12)) == pytest.approx(weight(report(0)) / 5)


@pytest.mark.parametrize(
    ("seconds", "nanos", "expected"), [(0, 500_000_000, 0.5), (5, 0, 5.0), (0, 1000, 0.1), (0, 0, 1.0)]
)
def test_the_interval_asked_for_is_read(seconds: int, nanos: int, expected: float):
    request = service.OrcaLoadReportRequest()
    request.report_interval.seconds, request.report_interval.nanos = seconds, nanos
    assert report_interval(request.SerializeToString()) == expected


@pytest.mark.parametrize("request_bytes", [b"", b"\x0a", b"\x0a\x7f\x01", b"\x0a\x02\xff\xff", b"\x12\x01a"])
def test_what_cannot_be_read_gets_the_default_interval(request_bytes: bytes):
    assert report_interval(request_bytes) == 1.0
