"""ClassifierService: proto to domain and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from opentelemetry.trace import get_current_span
from tiermesh.api.classifier.v1 import classifier_pb2, classifier_pb2_grpc
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.classifier.features import Features, Turn, read_features
from tiermesh.classifier.judge import judge
from tiermesh.classifier.judgement import Judgement
from tiermesh.classifier.ports import LearntModel
from tiermesh.shared.errors import InvalidRequest
from tiermesh.shared.rules import CurrentRules, TaskName

_ROLES: Mapping[int, Literal["system", "user", "assistant", "tool"]] = {
    chat_pb2.ROLE_SYSTEM: "system",
    chat_pb2.ROLE_USER: "user",
    chat_pb2.ROLE_ASSISTANT: "assistant",
    chat_pb2.ROLE_TOOL: "tool",
}
_TASK_TYPES: Mapping[TaskName, classifier_pb2.TaskType.ValueType] = {
    "greeting": classifier_pb2.TASK_TYPE_GREETING,
    "faq": classifier_pb2.TASK_TYPE_FAQ,
    "label": classifier_pb2.TASK_TYPE_LABEL,
    "summarise": classifier_pb2.TASK_TYPE_SUMMARISE,
    "rewrite": classifier_pb2.TASK_TYPE_REWRITE,
    "extract": classifier_pb2.TASK_TYPE_EXTRACT,
    "translate": classifier_pb2.TASK_TYPE_TRANSLATE,
    "qa": classifier_pb2.TASK_TYPE_QA,
    "chat": classifier_pb2.TASK_TYPE_CHAT,
    "code": classifier_pb2.TASK_TYPE_CODE,
    "math": classifier_pb2.TASK_TYPE_MATH,
    "tool_use": classifier_pb2.TASK_TYPE_TOOL_USE,
    "long_context": classifier_pb2.TASK_TYPE_LONG_CONTEXT,
    "planning": classifier_pb2.TASK_TYPE_PLANNING,
}


class ClassifierServicer(classifier_pb2_grpc.ClassifierServiceServicer):
    """Judges by the rules in force, and by a learnt model where there is one."""

    def __init__(self, rules: CurrentRules, model: LearntModel | None = None) -> None:
        self._rules = rules
        self._model = model

    async def Classify(self, request: classifier_pb2.ClassifyRequest, context: Any) -> classifier_pb2.ClassifyResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Classifies one conversation."""
        turns = _turns(request)
        book = self._rules.book
        features = read_features(turns, book.token_weights)
        judgement = judge(book, turns, features, tenant=request.tenant, model=self._model)
        version = book.version if self._model is None else f"{book.version}+{self._model.version}"
        _describe(judgement, features, version)
        numbers = features.numbers()
        numbers["max_answer_tokens"] = float(request.max_tokens)
        numbers["pattern_overrun_count"] = float(judgement.overruns)
        return classifier_pb2.ClassifyResponse(
            task_type=_TASK_TYPES[judgement.task_type],
            complexity=judgement.complexity,
            confidence=judgement.confidence,
            rules=judgement.rules,
            languages=features.languages,
            features=numbers,
            version=version,
            source=judgement.source,
            estimated_prompt_token_count=features.prompt_tokens,
        )


def _turns(request: classifier_pb2.ClassifyRequest) -> tuple[Turn, ...]:
    """Reads the conversation.

    Raises:
        InvalidRequest: there are no messages, or one has no role.
    """
    if not request.messages:
        raise InvalidRequest("messages must not be empty; send at least one", field="messages")
    turns = []
    for number, message in enumerate(request.messages):
        role = _ROLES.get(message.role)
        if role is None:
            raise InvalidRequest(
                "role must be one of ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT and ROLE_TOOL",
                field=f"messages[{number}].role",
            )
        calls = "\n".join(f"{call.name} {call.arguments_json}" for call in message.tool_calls)
        turns.append(Turn(role, message.content, calls))
    return tuple(turns)


def _describe(judgement: Judgement, features: Features, version: str) -> None:
    span = get_current_span()
    if not span.is_recording():
        return
    span.set_attributes(
        {
            "tiermesh.classifier.task_type": judgement.task_type,
            "tiermesh.classifier.complexity": judgement.complexity,
            "tiermesh.classifier.confidence": judgement.confidence,
            "tiermesh.classifier.source": judgement.source,
            "tiermesh.classifier.rules": judgement.rules,
            "tiermesh.classifier.languages": features.languages,
            "tiermesh.classifier.version": version,
            "tiermesh.classifier.pattern_overrun_count": judgement.overruns,
        }
    )
    span.set_attributes({f"tiermesh.classifier.feature.{name}": value for name, value in features.numbers().items()})
