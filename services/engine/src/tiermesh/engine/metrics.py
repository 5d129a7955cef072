"""What an engine counts: answers, where their time went, tokens, refusals, and its load as it is read.

Durations have the names of OpenTelemetry's semantic conventions for generative AI servers, which dashboards know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Meter, NoOpMeterProvider, Observation
from tiermesh.engine.engine import Ended
from tiermesh.engine.load import Load
from tiermesh.engine.ports import Lane
from tiermesh.shared.telemetry import SECONDS

TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5)
"""Buckets of the time that one token takes, in seconds."""


class EngineMetrics:
    """Instruments of one engine.

    Args:
        meter: Makes them; without one nothing is counted.
        tier: The engine's tier.
        model: Identifier that callers see.
        load: Reads the load, when metrics are exported.
    """

    def __init__(self, meter: Meter | None, *, tier: str, model: str, load: Callable[[], Load]) -> None:
        made = meter or NoOpMeterProvider().get_meter("tiermesh")
        self._counts = meter is not None
        self._tier = {"tier": tier}
        self._labels = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "tiermesh",
            "gen_ai.response.model": model,
            "tier": tier,
        }
        self._duration = made.create_histogram(
            "gen_ai.server.request.duration",
            unit="s",
            description="A complete answer, from its arrival at the engine to its end, by `tier` and `lane`.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._first = made.create_histogram(
            "gen_ai.server.time_to_first_token",
            unit="s",
            description="From a prompt's arrival to its first token, by `tier` and `lane`.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._per_token = made.create_histogram(
            "gen_ai.server.time_per_output_token",
            unit="s",
            description="Time of each token after the first, by `tier` and `lane`.",
            explicit_bucket_boundaries_advisory=TOKEN_SECONDS,
        )
        self._queued = made.create_histogram(
            "tiermesh.engine.queue.duration",
            unit="s",
            description="Wait for a slot, by `tier` and `lane`.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._tokens = made.create_counter(
            "tiermesh.engine.tokens",
            unit="{token}",
            description="Tokens of complete answers, by `tier` and `type`: `prompt`, `cached_prompt` (those of them that "
            "the prefix cache held) and `completion`.",
        )
        self._failed = made.create_counter(
            "tiermesh.engine.failures", description="Prompts refused or given up, by `tier` and `reason`."
        )
        for name, description, read in (
            ("running", "Prompts being answered, by `tier`.", lambda now: now.running),
            ("waiting", "Prompts in the queue, by `tier`.", lambda now: now.waiting),
            ("slots", "Prompts that may run at once, by `tier`.", lambda now: now.slots),
            ("kv_cache.utilization", "Share of the KV cache in use, 0 to 1, by `tier`.", _kv_cache),
        ):
            made.create_observable_gauge(
                f"tiermesh.engine.{name}", [self._observe(load, read)], description=description
            )
        for name, description, read in (
            ("aborted", "Prompts given up because the caller had gone, by `tier`.", lambda now: now.aborted),
            (
                "generated",
                "Tokens generated, whether anyone got them or not, by `tier`.",
                lambda now: now.generated_tokens,
            ),
            (
                "prefix_cache.queried",
                "Prompt tokens that the backend looked for in its prefix cache, by `tier`.",
                lambda now: now.prefix_queried_tokens,
            ),
            ("prefix_cache.hits", "Those of them that it found there, by `tier`.", lambda now: now.prefix_hit_tokens),
        ):
            made.create_observable_counter(
                f"tiermesh.engine.{name}", [self._observe(load, read)], description=description
            )

    def answered(self, ended: Ended, lane: Lane) -> None:
        """Counts a complete answer."""
        if not self._counts:
            return
        labels = {**self._labels, "lane": lane.name.lower()}
        first_s = ended.tokenize_s + ended.queue_s + ended.prefill_s
        decode_s = ended.decode_s + ended.detokenize_s
        self._duration.record(first_s + decode_s, labels)
        self._first.record(first_s, labels)
        self._queued.record(ended.queue_s, labels)
        per_choice = ended.completion_tokens / max(1, len(ended.finishes))
        if per_choice > 1:
            self._per_token.record(decode_s / (per_choice - 1), labels)
        for kind, count in (
            ("prompt", ended.prompt_tokens),
            ("cached_prompt", ended.cached_prompt_tokens),
            ("completion", ended.completion_tokens),
        ):
            self._tokens.add(count, {**self._tier, "type": kind})

    def failed(self, reason: str) -> None:
        """Counts a prompt that got no answer, or only part of one."""
        self._failed.add(1, {**self._tier, "reason": reason})

    def _observe(
        self, load: Callable[[], Load], read: Callable[[Load], float]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: [Observation(read(load()), self._tier)]


def _kv_cache(load: Load) -> float:
    return load.kv_cache_utilization
