"""The page about metrics, from the instruments that the services make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opentelemetry.metrics import NoOpMeter
from tiermesh.cache.metrics import CacheMetrics
from tiermesh.classifier.metrics import JudgementMetrics
from tiermesh.engine.load import Load
from tiermesh.engine.metrics import EngineMetrics
from tiermesh.outcomes.metrics import OutcomeMetrics
from tiermesh.router.telling.metrics import RequestMetrics
from tiermesh.shared.tls.metrics import watch_certificate

_HEAD = """\
<!-- Written by docs/generate.py; change the code it names, then run `make protos`. -->

# Metrics

Services and Envoy send metrics to an OpenTelemetry collector, over OTLP/gRPC, where one is named:

    OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://localhost:4317 make up

or `metrics: {otlp_endpoint: http://localhost:4317}` in the configuration file; every `metrics.interval_s` seconds. Prometheus
reads them from the collector's `prometheus` exporter, which writes dots as underscores. With no receiver nothing is
measured and nothing is spent. No metric carries a prompt, an answer, a key or a tenant.

Envoy's own have the prefix `envoy.`, and what they are about (`envoy.cluster_name`, `envoy.http_conn_manager_prefix`,
`envoy.response_code_class`) as attributes. The first to look at:

| metric | tells |
|---|---|
| `envoy.cluster.upstream_rq_time` | time of calls to a service, retries included, in ms |
| `envoy.cluster.upstream_rq_retry`, `envoy.cluster.upstream_rq_retry_overflow` | calls tried again; calls not tried again because the retry budget was spent |
| `envoy.cluster.circuit_breakers.default.rq_open` | 1 while a cluster takes no more requests at once |
| `envoy.cluster.outlier_detection.ejections_active` | replicas taken out because they fail |
| `envoy.cluster.membership_healthy` | replicas that answer health checks |
| `envoy.http.downstream_rq_xx` | answers at the ingress, by class of status |
| `envoy.server.days_until_first_cert_expiring` | days until the first certificate or authority that this Envoy uses ends |
| `envoy.cluster.ssl.fail_verify_san`, `envoy.cluster.ssl.fail_verify_error` | services whose certificate named another service, or came from an authority that is not trusted |
"""


@dataclass(frozen=True)
class Made:
    """One instrument."""

    kind: str
    name: str
    unit: str
    description: str


class RecordingMeter(NoOpMeter):
    """Remembers what was made of it."""

    def __init__(self) -> None:
        super().__init__("docs")
        self.made: list[Made] = []

    def create_counter(self, name: str, unit: str = "", description: str = "") -> Any:
        """Records a counter."""
        self.made.append(Made("counter", name, unit, description))
        return super().create_counter(name, unit, description)

    def create_histogram(self, name: str, unit: str = "", description: str = "", **options: Any) -> Any:
        """Records a histogram."""
        self.made.append(Made("histogram", name, unit, description))
        return super().create_histogram(name, unit, description, **options)

    def create_observable_gauge(self, name: str, callbacks: Any = None, unit: str = "", description: str = "") -> Any:
        """Records a gauge that is read."""
        self.made.append(Made("gauge", name, unit, description))
        return super().create_observable_gauge(name, callbacks, unit, description)

    def create_observable_counter(self, name: str, callbacks: Any = None, unit: str = "", description: str = "") -> Any:
        """Records a counter that is read."""
        self.made.append(Made("counter", name, unit, description))
        return super().create_observable_counter(name, callbacks, unit, description)

    def create_gauge(self, name: str, unit: str = "", description: str = "") -> Any:
        """Records a gauge."""
        self.made.append(Made("gauge", name, unit, description))
        return super().create_gauge(name, unit, description)


def instruments() -> dict[str, list[Made]]:
    """Returns the instruments of every service, by service."""
    found = {}
    for service, make in (
        ("router", RequestMetrics),
        ("classifier", JudgementMetrics),
        ("cache", CacheMetrics),
        ("outcomes", OutcomeMetrics),
        ("engine", lambda meter: EngineMetrics(meter, tier="", model="", load=lambda: Load(0, 0, 0, 0, 0.0, 0, 0))),
        ("every process with mutual TLS", lambda meter: watch_certificate(meter, lambda: 0.0)),
    ):
        meter = RecordingMeter()
        make(meter)
        found[service] = meter.made
    return found


def metrics_page() -> str:
    """Returns the page."""
    lines = [_HEAD]
    for service, made in instruments().items():
        lines += [f"## {service}", "", "| metric | kind | unit | meaning |", "|---|---|---|---|"]
        lines += [f"| `{m.name}` | {m.kind} | {m.unit} | {m.description} |" for m in made]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"
