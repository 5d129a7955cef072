"""What makes a report on an answer invalid, and what it says: pure functions of values."""

from __future__ import annotations

import re

from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.validation import check_range, invalid

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_JUDGE = re.compile(r"[A-Za-z0-9._:/-]{0,64}")
_SOURCES = frozenset(record_pb2.FeedbackSource.values())


def read_feedback(request: router_pb2.ReportOutcomeRequest) -> record_pb2.Feedback:
    """Returns the opinion that a report holds.

    Raises:
        InvalidRequest: it holds none, or is not valid; the field at fault is named.
    """
    if not _REQUEST_ID.fullmatch(request.request_id):
        raise invalid("request_id", "must be the id of the answer's label, 1 to 128 letters, digits or ._:/+=-")
    given = request.WhichOneof("verdict")
    if given is None:
        raise invalid("verdict", "one of `right` and `score` is required")
    score = float(request.right) if given == "right" else request.score
    check_range("score", score, 0.0, 1.0)
    if request.source not in _SOURCES:
        raise invalid("source", f"{request.source} is not known")
    if not _JUDGE.fullmatch(request.judge):
        raise invalid("judge", "must be at most 64 letters, digits or ._:/-")
    source = request.source or record_pb2.FEEDBACK_SOURCE_USER
    return record_pb2.Feedback(score=score, source=source, judge=request.judge)
