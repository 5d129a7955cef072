"""What requests are decided by: one immutable snapshot of the configuration at a time.

A request takes the snapshot once, when it arrives, and keeps it to its end; a changed
configuration replaces the snapshot for the requests that come after.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from tiermesh.shared.config import TierConfig, TiermeshConfig

_VERSION_CHARS = 12
_NOT_IN_ANSWERS = {
    "replicas", "slots", "queue", "price_in", "price_out", "cpu_cores", "kv_cache_gib", "gpu_memory_utilization",
    "tensor_parallel", "strength", "simulated_ttft_ms", "simulated_tokens_per_second", "hopeless_work", "token_ms_limit",
    "length_buckets", "balancing", "interactive_requests", "batch_requests",
}  # fmt: skip
"""Settings of a tier that change when or where it answers, but not what."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A configuration and what is derived from it."""

    config: TiermeshConfig
    version: str
    """Short hash of the whole configuration and of the rules."""
    answers_version: str
    """Short hash of what answers depend on; cached answers of another one are not found."""
    loaded_at: int
    """Seconds since the Unix epoch."""

    @property
    def tiers(self) -> tuple[TierConfig, ...]:
        """Tiers from the cheapest to the strongest."""
        return self.config.tiers


class Settings:
    """Holds the snapshot that new requests take."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.current = snapshot


def make_snapshot(config: TiermeshConfig, *, rules: bytes, loaded_at: float) -> Snapshot:
    """Returns the snapshot of a configuration.

    Args:
        config: The configuration.
        rules: Content of its rules file; empty where there is none.
        loaded_at: Seconds since the Unix epoch.
    """
    whole = config.model_dump(mode="json", exclude={"rules"})
    tiers = [tier.model_dump(mode="json", exclude=_NOT_IN_ANSWERS) for tier in config.tiers]
    dynamic = [field.model_dump(mode="json") for field in config.dynamic_fields]
    answers = [tiers, config.router.default_answer_tokens, *([dynamic] if dynamic else [])]
    return Snapshot(config, _short_hash(whole, rules), _short_hash(answers, rules), int(loaded_at))


def _short_hash(value: object, rules: bytes) -> str:
    digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode())
    digest.update(b"\0" + rules)
    return digest.hexdigest()[:_VERSION_CHARS]
