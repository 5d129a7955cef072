"""How long certificates still last, as a metric."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry.metrics import CallbackOptions, Meter, Observation


def watch_certificate(meter: Meter, days_left: Callable[[], float]) -> None:
    """Has a meter report for how many days this process's certificate, or its newest authority, still lasts.

    Args:
        meter: Of the process.
        days_left: Tells it; called at each export.
    """

    def observe(_: CallbackOptions) -> list[Observation]:
        return [Observation(days_left())]

    meter.create_observable_gauge(
        "tiermesh.tls.certificate.days_left",
        [observe],
        # No unit: collectors would put it at the end of the name, which says it.
        description="Days until the certificate in use, or the last authority it trusts, ends; negative once it has.",
    )
