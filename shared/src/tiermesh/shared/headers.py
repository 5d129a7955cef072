"""Names of the headers and metadata keys that tiermesh reads and writes."""

import base64

TENANT = "x-tiermesh-tenant"
"""Set by Envoy from the API key, stripped from what callers send. Trusted by services."""
DEADLINE = "x-tiermesh-deadline"
"""Set by Envoy: `sent` where the caller sent a deadline, `default` where the one that arrives is Envoy's."""
PRIORITY = "x-tiermesh-priority"
"""Set by the router on calls of engines: `batch` where nobody waits. Envoy keeps such calls within a limit of their own."""
BATCH = "batch"
"""Value of `PRIORITY`."""
PREFIX = "x-tiermesh-prefix"
"""Set by the router on calls of engines: digest of the conversation's beginning, by which Envoy chooses among the
replicas of tiers whose `balancing` is `prefix_affinity`."""
REPLICA = "x-tiermesh-replica"
"""Set by the router on `WatchLoad`: which replica it is meant for, as Envoy wants it (`replica_header`)."""
BREAKER = "x-tiermesh-breaker"
"""Set by Envoy on calls that it refuses because a circuit breaker is open: the cluster's name."""
REQUEST_ID = "x-request-id"
"""Set by Envoy on every request."""
OPENAI_ERROR = "x-openai-error"
"""OpenAI-shaped error body, as one line of ASCII JSON, from the router to Envoy's ingress."""
ROUTE_PREFIX = "x-tiermesh-"
"""Prefix of the response headers that carry the route label over HTTP."""
INGRESS_SERVER = "tiermesh"
"""Value of `server` in everything that the ingress answers."""


def replica_header(address: str) -> tuple[str, str]:
    """Returns the metadata that leads a call to one replica, by its address such as `10.1.2.3:8081`."""
    return REPLICA, base64.b64encode(address.encode()).decode()
