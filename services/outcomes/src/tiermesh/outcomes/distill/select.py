"""Which records may become examples, and what they look like: pure."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.outcomes.redaction import redact
from tiermesh.shared.outcomes import task_type_of, verdict

_ROLES = {
    chat_pb2.ROLE_SYSTEM: "system",
    chat_pb2.ROLE_USER: "user",
    chat_pb2.ROLE_ASSISTANT: "assistant",
}


@dataclass(frozen=True, slots=True)
class Filters:
    """What an example must be."""

    tiers: frozenset[str]
    """Answered by one of these."""
    task_types: frozenset[str] = frozenset()
    """Of one of these kinds; empty for every kind."""
    least_verdict: float = 0.5
    """Not judged worse than this by anybody; an answer that nobody judged is taken."""
    judged_only: bool = False
    """Whether an answer that nobody judged is left out."""
    allow_simulated: bool = False
    """Whether texts that a queueing model made up are taken; only for trying the command."""


@dataclass(frozen=True, slots=True)
class Example:
    """One conversation, and the answer to be learnt."""

    messages: tuple[dict[str, str], ...]
    """Role and content of each, the answer last."""
    request_id: str
    tenant: str
    task_type: str
    tier: str
    model: str
    config_version: str
    verdict: float | None

    @property
    def prompt(self) -> str:
        """What was asked last; what clusters are made of."""
        return self.messages[-2]["content"]

    @property
    def key(self) -> str:
        """The same for conversations that are the same but for case, width and spaces."""
        turns = (f"{turn['role']}\0{turn['content']}" for turn in self.messages[:-1])
        return " ".join(unicodedata.normalize("NFKC", "\0\0".join(turns)).casefold().split())


@dataclass(slots=True)
class Selected:
    """The examples, and why other records are not among them."""

    examples: list[Example] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)
    """By reason."""
    redactions: Counter[str] = field(default_factory=Counter)
    """Pieces blotted out of the examples, by kind: those of the log's own redaction and those found now."""
    read_count: int = 0


def select(outcomes: Iterable[record_pb2.Outcome], filters: Filters) -> Selected:
    """Returns the records that may become examples, each conversation once: the one that was judged best, else the newest.

    Personal data is looked for again, since the rules may have become better after the record was written.
    """
    found = Selected()
    best: dict[tuple[str, str], tuple[Example, Counter[str]]] = {}
    for outcome in outcomes:
        found.read_count += 1
        why = _why_not(outcome, filters)
        if why:
            found.passed_over[why] += 1
            continue
        example, counts = _example(outcome)
        key = (example.tenant, example.key)
        if key in best:
            found.passed_over["asked_before"] += 1
            if _worth(example) < _worth(best[key][0]):
                continue
        best[key] = (example, counts)
    for example, counts in best.values():
        found.examples.append(example)
        found.redactions.update(counts)
    return found


def _why_not(outcome: record_pb2.Outcome, filters: Filters) -> str:
    """Returns why a record is no example; empty where it is one."""
    result, opinion = outcome.result, verdict(outcome)
    checks: Sequence[tuple[str, bool]] = (
        ("not_complete", result.outcome != "ok"),
        ("other_tier", result.tier not in filters.tiers),
        ("other_task_type", bool(filters.task_types) and task_type_of(outcome) not in filters.task_types),
        ("no_text", not outcome.HasField("text") or not outcome.text.messages or not outcome.text.answers),
        ("not_redacted", outcome.HasField("text") and not outcome.text.redaction_version),
        ("from_cache", result.cache == "hit"),
        ("simulated", result.simulated and not filters.allow_simulated),
        ("cut_short", any(each.finish_reason != answer_pb2.FINISH_REASON_STOP for each in result.finishes)),
        ("not_good_enough", bool(result.escalation_skipped)),
        ("judged_wrong", opinion is not None and opinion < filters.least_verdict),
        ("not_judged", filters.judged_only and opinion is None),
        ("several_choices", len(outcome.text.answers) > 1),
        ("tools", any(m.tool_calls or m.role not in _ROLES for m in outcome.text.messages)),
        (
            "empty",
            not all(text.strip() for text in (*outcome.text.answers, *(m.content for m in outcome.text.messages))),
        ),
    )
    return next((reason for reason, holds in checks if holds), "")


def _example(outcome: record_pb2.Outcome) -> tuple[Example, Counter[str]]:
    counts: Counter[str] = Counter(dict(outcome.text.redaction_counts))
    messages = []
    for message in outcome.text.messages:
        content, more = redact(message.content)
        counts.update(more)
        messages.append({"role": _ROLES[message.role], "content": content})
    answer, more = redact(outcome.text.answers[0])
    counts.update(more)
    messages.append({"role": "assistant", "content": answer})
    example = Example(
        tuple(messages),
        outcome.request_id,
        outcome.tenant,
        task_type_of(outcome),
        outcome.result.tier,
        outcome.result.model,
        outcome.config_version,
        verdict(outcome),
    )
    return example, counts


def _worth(example: Example) -> float:
    return 0.5 if example.verdict is None else example.verdict


def training_line(example: Example, *, cluster: int) -> dict[str, Any]:
    """Returns an example as trainers take it: `messages`, and beside them where it comes from."""
    return {
        "messages": list(example.messages),
        "meta": {
            "request_id": example.request_id,
            "task_type": example.task_type,
            "tier": example.tier,
            "model": example.model,
            "cluster": cluster,
            "verdict": example.verdict,
        },
    }
