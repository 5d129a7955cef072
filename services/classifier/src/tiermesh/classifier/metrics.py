"""What the classifier counts: judgements by who made them, and how long the learnt model took."""

from __future__ import annotations

from opentelemetry.metrics import Meter, NoOpMeterProvider
from tiermesh.classifier.judgement import Judgement
from tiermesh.shared.telemetry import SECONDS


class JudgementMetrics:
    """Instruments of one classifier.

    Args:
        meter: Makes them; without one nothing is counted.
    """

    def __init__(self, meter: Meter | None = None) -> None:
        made = meter or NoOpMeterProvider().get_meter("tiermesh")
        self._judgements = made.create_counter(
            "tiermesh.classifier.judgements",
            description="Judgements, by `task_type`, `source` (`rules`, `model` or `default`) and `fallback`: why the "
            "learnt model, asked, said nothing; empty otherwise.",
        )
        self._model = made.create_histogram(
            "tiermesh.classifier.model.duration",
            unit="s",
            description="Wait for the learnt model, batching included.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )

    def judged(self, judgement: Judgement) -> None:
        """Counts a judgement."""
        self._judgements.add(
            1,
            {
                "task_type": judgement.task_type,
                "source": judgement.source,
                "fallback": judgement.fallback_reason,
            },
        )

    def asked_model(self, seconds: float) -> None:
        """Counts a question to the learnt model."""
        self._model.record(seconds)
