"""Every failure that a caller can see: one tree, one table.

    TiermeshError
    ├── InvalidRequest            INVALID_REQUEST      the caller must change the request
    │   ├── ContextTooLong        CONTEXT_TOO_LONG
    │   ├── UnknownModel          UNKNOWN_MODEL
    │   ├── UnknownTrace          UNKNOWN_TRACE
    │   ├── UnknownRequest        UNKNOWN_REQUEST
    │   └── FeatureOff            FEATURE_OFF          the configuration does not have it on
    ├── Unauthenticated           UNAUTHENTICATED
    ├── TenantForbidden           TENANT_FORBIDDEN
    ├── PeerForbidden             PEER_FORBIDDEN       a process of the mesh that may not call this one
    ├── Overloaded                                     trying later can help
    │   ├── QueueFull             QUEUE_FULL
    │   ├── BreakerOpen           BREAKER_OPEN
    │   └── RateLimited           RATE_LIMITED
    ├── DeadlineError                                  the budget ran out
    │   ├── BudgetExhausted       BUDGET_EXHAUSTED     before or between pieces of work
    │   └── InferenceTimeout      INFERENCE_TIMEOUT    while a model was generating
    ├── Unavailable               UNAVAILABLE          a part of the mesh is not there
    │   ├── NoEligibleTier        NO_ELIGIBLE_TIER
    │   ├── ModelLoadFailed       MODEL_LOAD_FAILED
    │   └── DeviceFailed          DEVICE_FAILED
    ├── OutOfMemory               OUT_OF_MEMORY
    ├── NotApplicable             NOT_APPLICABLE       a rules tier has no answer; try the next tier
    ├── StreamBroken              STREAM_BROKEN        an answer ended without its terminal event
    └── InternalError             INTERNAL             a defect of ours

`ERROR_TABLE` has one row per reason; documentation, `tiermesh doctor` and the gRPC and HTTP
mappings are all read from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import grpc

DOMAIN = "tiermesh"
"""`google.rpc.ErrorInfo.domain` of every error."""


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """What one reason means on the wire and to a person."""

    reason: str
    code: str
    """Short code for tickets and dashboards."""
    status: grpc.StatusCode
    http_status: int
    openai_type: str
    """`error.type` of OpenAI-shaped bodies."""
    meaning: str
    advice: str


class TiermeshError(Exception):
    """A failure with a reason of `ERROR_TABLE`.

    Args:
        message: What happened and where, in one sentence, for the caller.
        field: The request field at fault, such as `messages[0].content`.
        retry_after: Seconds after which trying again can help.
    """

    reason: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, *, field: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after = retry_after

    @property
    def row(self) -> ErrorRow:
        """The table's row for this error."""
        return ERROR_TABLE[self.reason]


class InvalidRequest(TiermeshError):
    """The request itself is wrong."""

    reason = "INVALID_REQUEST"


class ContextTooLong(InvalidRequest):
    """Prompt and answer do not fit the model's context."""

    reason = "CONTEXT_TOO_LONG"


class UnknownModel(InvalidRequest):
    """The model or tier named does not exist."""

    reason = "UNKNOWN_MODEL"


class UnknownTrace(InvalidRequest):
    """The trace named is not kept, or not any more."""

    reason = "UNKNOWN_TRACE"


class UnknownRequest(InvalidRequest):
    """The tenant has no such request in the log of outcomes."""

    reason = "UNKNOWN_REQUEST"


class FeatureOff(InvalidRequest):
    """What is asked for is switched off in the configuration."""

    reason = "FEATURE_OFF"


class Unauthenticated(TiermeshError):
    """No API key, or an unknown one."""

    reason = "UNAUTHENTICATED"


class TenantForbidden(TiermeshError):
    """The tenant may not do this."""

    reason = "TENANT_FORBIDDEN"


class PeerForbidden(TiermeshError):
    """The caller's certificate names a service that may not call this one."""

    reason = "PEER_FORBIDDEN"


class Overloaded(TiermeshError):
    """There is more work than capacity."""

    reason = "QUEUE_FULL"


class QueueFull(Overloaded):
    """A tier's queue is full."""

    reason = "QUEUE_FULL"


class BreakerOpen(Overloaded):
    """As much is under way to a tier as its circuit breaker allows for requests of this priority."""

    reason = "BREAKER_OPEN"


class RateLimited(Overloaded):
    """The tenant sends more than it may."""

    reason = "RATE_LIMITED"


class DeadlineError(TiermeshError):
    """The request's time is used up."""

    reason = "BUDGET_EXHAUSTED"


class BudgetExhausted(DeadlineError):
    """Too little time was left to begin, or it ran out between pieces of work."""

    reason = "BUDGET_EXHAUSTED"


class InferenceTimeout(DeadlineError):
    """Time ran out while a model was generating."""

    reason = "INFERENCE_TIMEOUT"


class Unavailable(TiermeshError):
    """A part of the mesh does not answer."""

    reason = "UNAVAILABLE"


class NoEligibleTier(Unavailable):
    """No tier can take the request now."""

    reason = "NO_ELIGIBLE_TIER"


class ModelLoadFailed(Unavailable):
    """The tier's model could not be loaded."""

    reason = "MODEL_LOAD_FAILED"


class DeviceFailed(Unavailable):
    """The tier's accelerator or its worker process failed."""

    reason = "DEVICE_FAILED"


class OutOfMemory(TiermeshError):
    """The tier ran out of memory."""

    reason = "OUT_OF_MEMORY"


class NotApplicable(TiermeshError):
    """A rules tier has no answer for this prompt."""

    reason = "NOT_APPLICABLE"


class StreamBroken(TiermeshError):
    """An answer ended without its terminal event."""

    reason = "STREAM_BROKEN"


class InternalError(TiermeshError):
    """A defect of tiermesh itself."""

    reason = "INTERNAL"


_S = grpc.StatusCode
_ROWS = (
    ErrorRow("INVALID_REQUEST", "REQ-400", _S.INVALID_ARGUMENT, 400, "invalid_request_error", "The request is not valid.", "Change the field that the message names."),
    ErrorRow("CONTEXT_TOO_LONG", "REQ-413", _S.INVALID_ARGUMENT, 400, "invalid_request_error", "Prompt and answer exceed the context of every tier allowed.", "Shorten the messages, lower max_tokens, or add a tier with a longer context."),
    ErrorRow("UNKNOWN_MODEL", "REQ-404", _S.NOT_FOUND, 404, "invalid_request_error", "The model or tier named does not exist.", 'List what exists with GET /v1/models, or send model "auto".'),
    ErrorRow("UNKNOWN_TRACE", "REQ-404", _S.NOT_FOUND, 404, "invalid_request_error", "The trace named is not among those kept.", "List what is kept with `tiermesh trace`; raise tracing.kept_traces in the configuration to keep more."),
    ErrorRow("UNKNOWN_REQUEST", "REQ-404", _S.NOT_FOUND, 404, "invalid_request_error", "The tenant has no such request in the log of outcomes.", "Send the request id of the answer's label, with the key of the tenant that asked; older requests may have left the log."),
    ErrorRow("FEATURE_OFF", "REQ-412", _S.FAILED_PRECONDITION, 400, "invalid_request_error", "What is asked for is switched off in the configuration.", "Switch on the key that the message names."),
    ErrorRow("UNAUTHENTICATED", "REQ-401", _S.UNAUTHENTICATED, 401, "authentication_error", "The API key is missing or unknown.", "Send `Authorization: Bearer KEY` with a key of the configuration's tenants."),
    ErrorRow("TENANT_FORBIDDEN", "REQ-403", _S.PERMISSION_DENIED, 403, "permission_error", "The tenant may not use this.", "Ask the operator, or use another tenant's key."),
    ErrorRow("PEER_FORBIDDEN", "TLS-403", _S.PERMISSION_DENIED, 403, "permission_error", "A process of the mesh called one that it may not call, by its certificate.", "Give each pod the certificate of its own service; docs/security.md lists who may call whom."),
    ErrorRow("RATE_LIMITED", "INF-429", _S.RESOURCE_EXHAUSTED, 429, "rate_limit_error", "The tenant sends more requests than its limit.", "Wait for retry-after; raise the tenant's limit in the configuration."),
    ErrorRow("QUEUE_FULL", "INF-429", _S.RESOURCE_EXHAUSTED, 429, "rate_limit_error", "The tier's queue is full.", "Wait for retry-after; add replicas to the tier."),
    ErrorRow("BREAKER_OPEN", "INF-429", _S.RESOURCE_EXHAUSTED, 429, "rate_limit_error", "As many requests of this priority are under way to the tier as its circuit breaker allows.", "Wait for retry-after; add replicas to the tier, or raise its breakers in the configuration."),
    ErrorRow("BUDGET_EXHAUSTED", "INF-503", _S.DEADLINE_EXCEEDED, 504, "timeout_error", "The deadline left no time for the work.", "Send a longer deadline, or a shorter prompt; see the trace for where the time went."),
    ErrorRow("INFERENCE_TIMEOUT", "INF-503", _S.DEADLINE_EXCEEDED, 504, "timeout_error", "The deadline passed while a model was generating.", "Send a longer deadline, or a lower max_tokens."),
    ErrorRow("UNAVAILABLE", "INF-502", _S.UNAVAILABLE, 503, "server_error", "A part of the mesh does not answer.", "Run `tiermesh status`; the part named is down or starting."),
    ErrorRow("NO_ELIGIBLE_TIER", "INF-502", _S.UNAVAILABLE, 503, "server_error", "No tier can take the request now.", "Run `tiermesh status`; explain the request to see why each tier was passed over."),
    ErrorRow("MODEL_LOAD_FAILED", "INF-502", _S.UNAVAILABLE, 503, "server_error", "The tier's model could not be loaded.", "Read the tier's log with `tiermesh logs`; check the model name or path."),
    ErrorRow("DEVICE_FAILED", "CUDA-ERR", _S.UNAVAILABLE, 503, "server_error", "The tier's accelerator or worker failed.", "The engine restarts by itself; read its log if this repeats."),
    ErrorRow("OUT_OF_MEMORY", "MEM-ERR", _S.RESOURCE_EXHAUSTED, 503, "server_error", "The tier ran out of memory.", "Lower the tier's concurrency or context, or give it more memory."),
    ErrorRow("NOT_APPLICABLE", "INF-412", _S.FAILED_PRECONDITION, 400, "invalid_request_error", "A rules tier has no fixed answer for this prompt.", 'Send model "auto", or pin a tier with a language model.'),
    ErrorRow("STREAM_BROKEN", "INF-500", _S.INTERNAL, 500, "server_error", "An answer ended without its terminal event.", "Send the request again; read the tier's log if this repeats."),
    ErrorRow("INTERNAL", "INT-500", _S.INTERNAL, 500, "server_error", "A defect of tiermesh.", "Report it with the trace id and the log lines that carry it."),
)  # fmt: skip
ERROR_TABLE: dict[str, ErrorRow] = {row.reason: row for row in _ROWS}
"""Reason to row, in the order in which documentation prints them."""


def _leaves(cls: type[TiermeshError]) -> dict[str, type[TiermeshError]]:
    found = {cls.reason: cls}
    for sub in cls.__subclasses__():
        # The most specific class of a reason wins; abstract parents reuse a child's reason.
        found |= _leaves(sub)
    return found


_CLASS_BY_REASON = _leaves(TiermeshError) | {
    "INTERNAL": InternalError,
    "INVALID_REQUEST": InvalidRequest,
    "UNAVAILABLE": Unavailable,
}

_REASON_BY_STATUS: dict[grpc.StatusCode, str] = {
    _S.INVALID_ARGUMENT: "INVALID_REQUEST",
    _S.OUT_OF_RANGE: "INVALID_REQUEST",
    _S.NOT_FOUND: "UNKNOWN_MODEL",
    _S.UNAUTHENTICATED: "UNAUTHENTICATED",
    _S.PERMISSION_DENIED: "TENANT_FORBIDDEN",
    _S.RESOURCE_EXHAUSTED: "QUEUE_FULL",
    _S.DEADLINE_EXCEEDED: "BUDGET_EXHAUSTED",
    _S.UNAVAILABLE: "UNAVAILABLE",
    _S.FAILED_PRECONDITION: "NOT_APPLICABLE",
    # Services send INTERNAL with details. Bare, it is what gRPC makes of a stream that was reset after its headers.
    _S.INTERNAL: "STREAM_BROKEN",
    # Of a server that stopped while it had the call: whoever gave the call up has no use for its status.
    _S.CANCELLED: "UNAVAILABLE",
}


def error_for_reason(reason: str, message: str, *, field: str = "", retry_after: float | None = None) -> TiermeshError:
    """Builds the error of a reason received from another process; unknown reasons are InternalError."""
    return _CLASS_BY_REASON.get(reason, InternalError)(message, field=field, retry_after=retry_after)


def reason_for_status(status: grpc.StatusCode) -> str:
    """Returns the reason that best describes a bare gRPC status, as Envoy and gRPC itself produce."""
    return _REASON_BY_STATUS.get(status, "INTERNAL")
