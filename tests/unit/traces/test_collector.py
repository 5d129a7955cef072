"""Where the operator's collector is, and that it is not the trace store itself."""

import pytest
from harness.cache import cache_config
from tiermesh.shared.config import ConfigError
from tiermesh.traces.collector import CollectorAddress, find_collector, is_myself

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def find(endpoint, **environ):
    return find_collector(cache_config(), {ENDPOINT: endpoint, **environ})


def test_none_is_configured():
    assert find_collector(cache_config(), {}) is None
    assert find("") is None


@pytest.mark.parametrize(
    ("endpoint", "target", "secure"),
    [
        ("http://jaeger:4317", "jaeger:4317", False),
        ("https://otlp.example.com", "otlp.example.com:4317", True),
        ("http://127.0.0.1:9/", "127.0.0.1:9", False),
        ("http://[::1]:4317", "[::1]:4317", False),
    ],
)
def test_endpoints(endpoint, target, secure):
    address = find(endpoint)
    assert (address.target, address.secure) == (target, secure)


@pytest.mark.parametrize("endpoint", ["jaeger:4317", "grpc://jaeger:4317", "http://", "http://h:99999", "4317"])
def test_wrong_endpoints_name_the_key(endpoint):
    with pytest.raises(ConfigError, match=ENDPOINT):
        find(endpoint)


def test_headers_and_certificate():
    address = find(
        "https://h",
        OTEL_EXPORTER_OTLP_HEADERS="Api-Key=a%20b, x=1,,broken",
        OTEL_EXPORTER_OTLP_CERTIFICATE="/etc/ca.pem",
    )
    assert address.headers == (("api-key", "a b"), ("x", "1"))
    assert str(address.certificate) == "/etc/ca.pem"


@pytest.mark.parametrize(
    ("host", "port", "mine"),
    [
        ("127.0.0.1", 18003, True),
        ("localhost", 18003, True),
        ("LOCALHOST", 18003, True),
        ("::1", 18003, True),
        ("0.0.0.0", 18003, True),
        ("box", 18003, True),
        ("127.0.0.1", 4317, False),
        ("jaeger", 18003, False),
    ],
)
def test_it_knows_itself(host, port, mine):
    assert is_myself(CollectorAddress(host, port, False), "127.0.0.1:18003", hostname="box") is mine


def test_it_knows_the_address_it_listens_on():
    assert is_myself(CollectorAddress("10.0.0.5", 18003, False), "10.0.0.5:18003")
