"""Outcomes as JSON lines: how `tiermesh outcomes export` writes them, and how everything that learns from them reads them.

One `tiermesh.api.outcome.v1.Outcome` a line, in protobuf's own JSON form with the field names of the contract.
A reader passes over fields that it does not know, so an older one reads what a newer one has written.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator

from google.protobuf import json_format
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.outcome.v1 import record_pb2

SCHEMA_VERSION = 1
"""Version of the record's meaning that this code writes and reads."""


class OutcomeError(Exception):
    """A line is no outcome that can be read; the message names it."""


def is_sampled(request_id: str, share: float) -> bool:
    """Returns whether a request is among the `share` of all that is recorded; every process says the same."""
    return share >= 1.0 or zlib.crc32(request_id.encode()) < share * 2**32


def read_outcomes(lines: Iterable[str]) -> Iterator[record_pb2.Outcome]:
    """Yields the outcomes of an export; blank lines are passed over.

    Args:
        lines: Such as an open file.

    Raises:
        OutcomeError: a line is not what it should be.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = json_format.Parse(line, record_pb2.Outcome(), ignore_unknown_fields=True)
        except json_format.ParseError as error:
            raise OutcomeError(f"line {number}: is no outcome: {error}") from None
        if not found.request_id or found.schema_version < 1:
            raise OutcomeError(f"line {number}: is no outcome: request_id and schema_version are required")
        if found.schema_version > SCHEMA_VERSION:
            raise OutcomeError(
                f"line {number}: has schema version {found.schema_version}, and this is tiermesh for version"
                f" {SCHEMA_VERSION}; update it"
            )
        yield found


def write_outcome(outcome: record_pb2.Outcome) -> str:
    """Returns an outcome as one line of JSON, without its end."""
    found = json_format.MessageToDict(outcome, preserving_proto_field_name=True)
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def is_outcome_line(line: str) -> bool:
    """Returns whether a line of JSON looks like an outcome, rather than like another log."""
    try:
        found = json.loads(line)
    except ValueError:
        return False
    return isinstance(found, dict) and "request_id" in found and "schema_version" in found


def verdict(outcome: record_pb2.Outcome) -> float | None:
    """Returns how good the answer was, 0 to 1, or None where nobody said.

    Of each source and judge the last opinion counts. A check that can tell outranks people, and they
    outrank a model that was asked; within a rank it is the mean.
    """
    last = {(each.source, each.judge): each for each in outcome.feedback}
    for source in _RANKS:
        scores = [each.score for each in last.values() if each.source in source]
        if scores:
            return sum(scores) / len(scores)
    return None


def task_type_of(outcome: record_pb2.Outcome) -> str:
    """Returns the kind of work by the name that configuration and labels use, such as `qa`."""
    number = outcome.features.task_type
    values = classifier_pb2.TaskType.values()
    name = classifier_pb2.TaskType.Name(number) if number in values else "TASK_TYPE_UNSPECIFIED"
    return name.removeprefix("TASK_TYPE_").lower()


_RANKS = (
    {record_pb2.FEEDBACK_SOURCE_CHECK},
    {record_pb2.FEEDBACK_SOURCE_USER, record_pb2.FEEDBACK_SOURCE_UNSPECIFIED},
    {record_pb2.FEEDBACK_SOURCE_JUDGE},
)
