"""Client of tiermesh: typed, with deadlines, honest about failures, and gentle when the mesh is in trouble.

    from tiermesh.client import Client

    with Client("127.0.0.1:8080", api_key="...") as mesh:
        answer = mesh.ask("Why is the sky blue?", deadline_s=10)
        print(answer.text, answer.route.tier, answer.usage.completion_token_count)

`AsyncClient` is the same with `async with`, `await` and `async for`. Every call

- has a deadline: the one given, or its lane's; all attempts together keep it;
- is retried only before the first event, where the mesh cannot be reached, or where it names a
  retry-after that leaves time for an answer; with exponential backoff and full jitter, and only
  while the retry tokens that all calls share last. Whatever else can be tried again, the mesh's own
  Envoy has;
- raises a class of `tiermesh.shared.errors`, re-exported here;
- is cancelled for real, engine included, when its stream is closed or its task is cancelled;
- carries the current trace, or the `traceparent` that it is given.
"""

from tiermesh.client._answer import Answer
from tiermesh.client._async import AsyncClient
from tiermesh.client._async_stream import AsyncAnswerStream
from tiermesh.client._deadlines import Deadlines, Lane
from tiermesh.client._request import make_report, make_request
from tiermesh.client._retries import RetryPolicy, RetryTokens
from tiermesh.client._sync import Client
from tiermesh.client._sync_stream import AnswerStream
from tiermesh.shared.errors import (
    BudgetExhausted,
    DeadlineError,
    FeatureOff,
    InvalidRequest,
    Overloaded,
    StreamBroken,
    TiermeshError,
    Unauthenticated,
    Unavailable,
    UnknownRequest,
)

__all__ = [
    "Answer",
    "AnswerStream",
    "AsyncAnswerStream",
    "AsyncClient",
    "BudgetExhausted",
    "Client",
    "DeadlineError",
    "Deadlines",
    "FeatureOff",
    "InvalidRequest",
    "Lane",
    "Overloaded",
    "RetryPolicy",
    "RetryTokens",
    "StreamBroken",
    "TiermeshError",
    "Unauthenticated",
    "Unavailable",
    "UnknownRequest",
    "make_report",
    "make_request",
]
