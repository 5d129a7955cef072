"""Schema of the configuration file. Every key has a default, a unit in its name, and a range."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator
from tiermesh.shared.config._bandit import BanditConfig
from tiermesh.shared.config._breakers import BreakersConfig, Requests
from tiermesh.shared.config._dynamic import DynamicField
from tiermesh.shared.config._lanes import LanesConfig
from tiermesh.shared.config._outcomes import OutcomesConfig
from tiermesh.shared.config._routing import BalanceConfig, EscalationConfig
from tiermesh.shared.config._section import Section as _Section
from tiermesh.shared.config._tls import TlsConfig

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
Port = Annotated[int, Field(ge=1, le=65535)]


class NetworkConfig(_Section):
    """Where the local mesh listens."""

    bind: str = "127.0.0.1"
    """Address on which everything but the admin page listens. Loopback unless you mean otherwise."""
    ingress_port: Port = 8080
    """Envoy's door for HTTP/1.1, HTTP/2 and gRPC."""
    admin_port: Port = 9901
    """Envoy's admin page; always on loopback."""
    xds_port: Port = 18000
    """Control plane: xDS and MeshService."""
    mesh_port: Port = 18001
    """Envoy's listener for calls between services."""
    redis_port: Port = 18002
    """The embedded Redis."""
    traces_port: Port = 18003
    """Trace store: OTLP in, TraceService out."""
    service_port_base: Port = 18100
    """First port of the blocks in which service replicas listen."""


class TenantConfig(_Section):
    """Someone who may send requests."""

    name: Name
    """Name in labels, cache keys and logs."""
    key_file: Path | None = None
    """File with API keys, one a line. Relative to the state folder."""
    key_env: str | None = None
    """Environment variable with API keys, separated by commas."""
    weight: Annotated[float, Field(gt=0)] = 1.0
    """Share of an engine's slots where tenants compete for them: one with 2 starts twice as many prompts as one with 1."""

    @model_validator(mode="after")
    def _has_a_key_source(self) -> Self:
        if (self.key_file is None) == (self.key_env is None):
            raise ValueError(f"tenant {self.name!r} needs exactly one of key_file and key_env")
        return self


class LimitsConfig(_Section):
    """What one request or one tenant may ask for at most."""

    max_request_bytes: Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)] = 4 * 1024 * 1024
    """Longest request body; a longer one is refused with 413."""
    requests_per_second: Annotated[int, Field(ge=1)] = 2000
    """Sustained rate per tenant at the ingress."""
    burst: Annotated[int, Field(ge=1)] = 4000
    """Requests that a tenant may send at once above its rate."""


class DeadlineConfig(_Section):
    """Deadlines at the ingress, and the shares that hops may take of them."""

    default_ms: Annotated[int, Field(ge=1)] = 60_000
    """For callers that send none."""
    max_ms: Annotated[int, Field(ge=1)] = 600_000
    """Longer deadlines are cut to this."""
    offset_ms: Annotated[int, Field(ge=0)] = 50
    """The router ends this much before Envoy's own timer, so that a terminal event still gets out; other timers come as
    much after it, so that Envoy is the one to cut a stream that has none."""
    cache_ms: Annotated[int, Field(ge=1)] = 20
    """Cap of a cache lookup; past it the request goes on as a miss."""
    classifier_ms: Annotated[int, Field(ge=1)] = 50
    """Cap of a classification; past it the request goes on unclassified."""
    reserve_ms: Annotated[int, Field(ge=0)] = 20
    """Kept back by the router from an engine's budget, to end the answer properly."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.default_ms > self.max_ms:
            raise ValueError(f"default_ms ({self.default_ms}) must not exceed max_ms ({self.max_ms})")
        return self


class HealthConfig(_Section):
    """How Envoy tells which replicas can work: it asks each of them twice a second."""

    timeout_ms: Annotated[int, Field(ge=10, le=60_000)] = 1000
    """Longest wait for a replica's answer. One that does not answer twice in a row gets no requests until it does."""


class ServiceConfig(_Section):
    """A stateless service."""

    replicas: Annotated[int, Field(ge=1, le=10)] = 1
    """Processes that share the work."""


class RouterConfig(ServiceConfig):
    """The router."""

    default_answer_tokens: Annotated[int, Field(ge=1)] = 256
    """Answer limit of requests that name none; capped by the tier's own."""


class ClassifierConfig(ServiceConfig):
    """The classifier: rules first, then a learnt model for what they are not sure of."""

    model: str = "builtin"
    """`builtin`, `off` for rules alone, or a folder written by `make train-classifier`."""
    model_timeout_ms: Annotated[int, Field(ge=1, le=10_000)] = 20
    """Longest wait for the learnt model; past it the rules decide."""

    @field_validator("model", mode="before")
    @classmethod
    def _off_is_a_word(cls, value: object) -> object:
        # YAML reads a bare `off` as false.
        return "off" if value is False else value


class CacheConfig(ServiceConfig):
    """The answer cache."""

    @field_validator("coalescing", mode="before")
    @classmethod
    def _off_is_a_word(cls, value: object) -> object:
        # YAML reads a bare `off` as false.
        return "off" if value is False else value

    enabled: bool = True
    """Whether answers are kept and looked up at all."""
    redis_url: str | None = None
    """An existing Redis, such as redis://host:6379/0, redis+cluster://host:6379 of any node of a cluster, or
    redis+sentinel://host:26379,host:26379/service of Sentinels; the environment's REDIS_URL wins. None starts the
    embedded one."""
    coalescing: Literal["off", "replica", "mesh"] = "mesh"
    """Whether identical requests at the same time share one run, where the cache may be used. `replica`: those at one
    router. `mesh`: those at all routers, through Redis, where there is more than one."""
    ttl_s: Annotated[int, Field(ge=1)] = 3600
    """How long an answer is kept, give or take a tenth."""
    store_timeout_ms: Annotated[int, Field(ge=1, le=10_000)] = 5
    """Longest wait for Redis; past it a lookup is a miss."""
    max_answer_bytes: Annotated[int, Field(ge=1024)] = 256 * 1024
    """Larger answers are not kept."""
    max_memory_mb: Annotated[int, Field(ge=16)] = 256
    """Memory cap of the embedded Redis."""
    ttl_s_by_task_type: dict[str, Annotated[int, Field(ge=1)]] = Field(default={})
    """How long an answer of a task type is kept, where that differs from `ttl_s`; such as `{faq: 86400}`."""
    stale_s_by_task_type: dict[str, Annotated[int, Field(ge=1)]] = Field(default={})
    """How much longer an answer of a task type may be given while it is made anew; none by default."""
    uncached_task_types: tuple[str, ...] = ()
    """Task types whose answers are never kept."""
    local_entries: Annotated[int, Field(ge=0)] = 10_000
    """Answers that a replica keeps in its own memory in front of Redis; 0 turns that layer off."""
    local_memory_mb: Annotated[int, Field(ge=1)] = 64
    """Memory that those answers may take."""
    semantic_enabled: bool = False
    """Whether an answer may be given to a question in other words; `make up` installs what that needs."""
    semantic_shadow: bool = False
    """Whether the semantic tier only reports what it would have answered, and answers nothing."""
    semantic_task_types: tuple[str, ...] = ("faq",)
    """Task types whose answers it may give to other wordings."""
    semantic_threshold: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Least likeness of two questions, before the guards; `tiermesh cache tune` recommends one."""
    semantic_entries: Annotated[int, Field(ge=1)] = 100_000
    """Questions that the semantic tier remembers; past that, those worth least are forgotten."""


class TierConfig(_Section):
    """One model tier. Tiers are listed from the cheapest to the strongest."""

    name: Name
    """Name in labels and in `tier:NAME` pins."""
    backend: Literal["rules", "vllm", "simulated"]
    """`rules`: fixed answers. `vllm`: a language model. `simulated`: a queueing model that makes text up."""
    model: str = "rules"
    """`package:smollm2-135m-instruct`, a Hugging Face id, or a folder."""
    served_model: str | None = None
    """Identifier that callers see; the default is the tier's model without its path."""
    replicas: Annotated[int, Field(ge=1, le=10)] = 1
    """Engine processes that share the work."""
    context_tokens: Annotated[int, Field(ge=64)] = 2048
    """Prompt and answer together."""
    answer_tokens: Annotated[int, Field(ge=1)] = 512
    """Longest answer."""
    max_complexity: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Hardest request that this tier is the first choice for."""
    strength: Annotated[float, Field(ge=0, le=1)] | None = None
    """How far the tier is between the small model (0) and the large one (1) that the classifier's probabilities are about;
    None spaces the tiers with language models evenly, in their order."""
    task_types: tuple[str, ...] = ()
    """Only these kinds of work, by name; empty means all."""
    excluded_task_types: tuple[str, ...] = ()
    """Never these kinds of work, by name."""
    languages: tuple[str, ...] = ()
    """Only these ISO 639-1 codes; empty means all."""
    slots: Annotated[int, Field(ge=1)] = 16
    """Prompts that run at once."""
    queue: Annotated[int, Field(ge=0)] = 64
    """Prompts that may wait for a slot."""
    hopeless_work: Literal["dark", "measured", "enforced"] = "measured"
    """Prompts whose predicted end is past their deadline. `dark`: they are only counted, and how many of them ended in
    time after all. `enforced`: they are refused with BUDGET_EXHAUSTED before they queue. `measured`: refused once, and
    only while, most of those let in did miss their deadline; on the simulated backend from the start."""
    token_ms_limit: Annotated[float, Field(gt=0)] | None = None
    """Longest time between two tokens of an answer that the engine aims at: the number of prompts that run at once is
    then lowered where tokens come slower, and raised again, up to `slots`, while prompts wait. None always allows `slots`."""
    length_buckets: bool = False
    """Whether prompts of like length are started one after the other. For backends that pad a batch to its longest
    prompt; vLLM does not."""
    balancing: Literal["least_request", "load_reports", "prefix_affinity"] = "least_request"
    """How Envoy chooses among the tier's replicas. `least_request`: the one with the fewest requests of this Envoy.
    `load_reports`: by the load that replicas report, for many Envoys in front of the same replicas. `prefix_affinity`:
    prompts that begin alike go to one replica, whose KV cache has their beginning, until it has half as much again
    in hand as all have on average."""
    interactive_requests: Requests | None = None
    """Circuit breaker: most requests that one Envoy lets be under way to the tier while someone waits for them. None takes
    `breakers.interactive_requests`."""
    batch_requests: Requests | None = None
    """Circuit breaker: most requests of batch priority under way. None takes `breakers.batch_requests`."""
    price_in: Annotated[float, Field(ge=0)] = 0.0
    """Cost of a million prompt tokens, in any one currency."""
    price_out: Annotated[float, Field(ge=0)] = 0.0
    """Cost of a million answer tokens, in the same currency."""
    cpu_cores: str | None = None
    """vLLM on CPU: cores to bind to, such as `0` or `0-3`."""
    kv_cache_gib: Annotated[int, Field(ge=1)] = 1
    """vLLM on CPU: memory for the KV cache."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9
    """vLLM on GPU: share of the card's memory."""
    tensor_parallel: Annotated[int, Field(ge=1)] = 1
    """vLLM on GPU: cards that one replica is spread over."""
    dtype: str = "auto"
    """vLLM: number format of weights and activations, such as `bfloat16`."""
    simulated_ttft_ms: Annotated[float, Field(ge=0)] = 40.0
    """Simulated backend: time to the first token of an idle engine."""
    simulated_tokens_per_second: Annotated[float, Field(gt=0)] = 60.0
    """Simulated backend: decode speed of one answer."""

    @property
    def public_model(self) -> str:
        """Identifier that callers see."""
        if self.served_model is not None:
            return self.served_model
        return self.model.removeprefix("package:").rstrip("/").rsplit("/", 1)[-1]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.batch_requests and self.interactive_requests and self.batch_requests > self.interactive_requests:
            raise ValueError(
                f"tier {self.name!r}: batch_requests ({self.batch_requests}) must not exceed interactive_requests ({self.interactive_requests})"
            )
        if self.backend != "rules" and self.answer_tokens >= self.context_tokens:
            raise ValueError(
                f"tier {self.name!r}: answer_tokens ({self.answer_tokens}) must be below context_tokens ({self.context_tokens})"
            )
        return self


class TracingConfig(_Section):
    """Traces."""

    sample_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of new traces that is recorded; a caller's own decision is kept."""
    otlp_endpoint: str | None = None
    """OTLP/gRPC collector, such as http://localhost:4317; the environment's OTEL_EXPORTER_OTLP_ENDPOINT wins."""
    kept_traces: Annotated[int, Field(ge=1)] = 1000
    """How many recent traces `tiermesh trace` can show."""


class MetricsConfig(_Section):
    """Metrics."""

    otlp_endpoint: str | None = None
    """OTLP/gRPC receiver of metrics, such as http://localhost:4317, of the services and of Envoy; the environment's
    OTEL_EXPORTER_OTLP_METRICS_ENDPOINT wins. Not `tracing.otlp_endpoint`: Jaeger, for one, takes no metrics."""
    interval_s: Annotated[float, Field(gt=0, le=600)] = 15.0
    """Seconds between two exports."""


class LoggingConfig(_Section):
    """Logs."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe messages that are written."""
    prompts: bool = False
    """Whether prompts and answers may appear in logs."""
    access: bool = False
    """Whether Envoy writes one JSON line per request to standard error; never with bodies or keys."""


class DiscoveryConfig(_Section):
    """How the control plane finds replicas."""

    mode: Literal["local", "dns"] = "local"
    """`local`: processes of this machine, by port block. `dns`: headless services, one name each."""
    dns_suffix: str = ""
    """`dns`: appended to a service's name, such as `.tiermesh.svc.cluster.local`."""
    service_port: Port = 8081
    """`dns`: port on which every service listens."""
    dns_prefix: str = "tiermesh-"
    """`dns`: put before a service's name."""


class TiermeshConfig(_Section):
    """The whole file."""

    network: NetworkConfig = NetworkConfig()
    discovery: DiscoveryConfig = DiscoveryConfig()
    tls: TlsConfig = TlsConfig()
    health: HealthConfig = HealthConfig()
    tenants: Annotated[tuple[TenantConfig, ...], Field(min_length=1)]
    """Who may send requests."""
    limits: LimitsConfig = LimitsConfig()
    deadlines: DeadlineConfig = DeadlineConfig()
    lanes: LanesConfig = LanesConfig()
    escalation: EscalationConfig = EscalationConfig()
    balance: BalanceConfig = BalanceConfig()
    breakers: BreakersConfig = BreakersConfig()
    router: RouterConfig = RouterConfig()
    classifier: ClassifierConfig = ClassifierConfig()
    cache: CacheConfig = CacheConfig()
    outcomes: OutcomesConfig = OutcomesConfig()
    bandit: BanditConfig = BanditConfig()
    tiers: Annotated[tuple[TierConfig, ...], Field(min_length=1, max_length=16)]
    """Model tiers, from the cheapest to the strongest."""
    rules: Path = Path("rules.yaml")
    """File with routing rules, fixed answers and labels. Relative to this file."""
    dynamic_fields: tuple[DynamicField, ...] = ()
    """Parts of messages that change with every request; moved to the end of their message for engines."""
    drain_s: Annotated[float, Field(ge=0)] = 20.0
    """How long in-flight answers may take to finish on shutdown."""
    tracing: TracingConfig = TracingConfig()
    metrics: MetricsConfig = MetricsConfig()
    logging: LoggingConfig = LoggingConfig()

    @model_validator(mode="after")
    def _bandit_can_learn(self) -> Self:
        if self.bandit.mode != "off" and not self.outcomes.enabled:
            raise ValueError(f"bandit.mode {self.bandit.mode} needs outcomes.enabled: true, which it learns from")
        return self

    @model_validator(mode="after")
    def _tls_between_machines(self) -> Self:
        if self.discovery.mode == "local":
            on = {
                "mesh": self.tls.mesh,
                "control_plane": self.tls.control_plane,
                "ingress.enabled": self.tls.ingress.enabled,
            }
            if keys := [f"tls.{key}" for key, value in on.items() if value]:
                raise ValueError(
                    f"{', '.join(keys)}: needs discovery.mode: dns. On one machine calls stay on loopback: leave it off, and "
                    "let a proxy end TLS before the ingress if callers come from elsewhere"
                )
        return self

    @model_validator(mode="after")
    def _unique_names(self) -> Self:
        for what, names in (("tier", [t.name for t in self.tiers]), ("tenant", [t.name for t in self.tenants])):
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                raise ValueError(f"{what} names must be unique; used twice: {', '.join(twice)}")
        return self

    def breakers_of(self, tier: TierConfig) -> BreakersConfig:
        """Returns the circuit breakers of a tier's engines."""
        interactive = tier.interactive_requests or self.breakers.interactive_requests
        # A tier that sets one limit alone does not turn the order of the two round.
        batch = min(interactive, tier.batch_requests or self.breakers.batch_requests)
        return BreakersConfig(interactive_requests=interactive, batch_requests=batch)

    def tier(self, name: str) -> TierConfig:
        """Returns the tier of that name.

        Raises:
            KeyError: there is none.
        """
        for tier in self.tiers:
            if tier.name == name:
                return tier
        raise KeyError(name)
