"""ClassifierService: proto to domain and back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal

from opentelemetry.trace import get_current_span
from tiermesh.api.classifier.v1 import classifier_pb2, classifier_pb2_grpc
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.classifier.features import Features, Turn, read_features
from tiermesh.classifier.judge import judge, sure, with_answer
from tiermesh.classifier.judgement import Judgement
from tiermesh.classifier.metrics import JudgementMetrics
from tiermesh.classifier.ports import LearntModel
from tiermesh.classifier.prediction import Prediction
from tiermesh.classifier.safety import safety_flags
from tiermesh.shared.budget import current_budget
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

    def __init__(
        self, rules: CurrentRules, model: LearntModel | None = None, metrics: JudgementMetrics | None = None
    ) -> None:
        self._rules = rules
        self._model = model
        self._metrics = metrics or JudgementMetrics()

    async def Classify(self, request: classifier_pb2.ClassifyRequest, context: Any) -> classifier_pb2.ClassifyResponse:  # noqa: ARG002, N802 -- gRPC's signature
        """Classifies one conversation."""
        turns = _turns(request)
        book = self._rules.book
        features = read_features(turns, book.token_weights)
        judgement = judge(book, turns, features, tenant=request.tenant)
        if self._model is not None and (not sure(judgement) or _wants_probabilities(request, judgement, self._model)):
            began = time.perf_counter()
            answer = await self._model.ask(features, limit_s=current_budget().remaining())
            self._metrics.asked_model(time.perf_counter() - began)
            judgement = with_answer(judgement, answer)
        self._metrics.judged(judgement)
        model_version = "" if self._model is None else self._model.version
        version = f"{book.version}+{model_version}" if model_version else book.version
        flags = safety_flags(features.text)
        _describe(judgement, features, version, flags)
        numbers = features.numbers()
        numbers["max_answer_tokens"] = float(request.max_tokens)
        numbers["pattern_overrun_count"] = float(judgement.overruns)
        response = classifier_pb2.ClassifyResponse(
            task_type=_TASK_TYPES[judgement.task_type],
            complexity=judgement.complexity,
            confidence=judgement.confidence,
            rules=judgement.rules,
            languages=features.languages,
            features=numbers,
            version=version,
            source=judgement.source,
            estimated_prompt_token_count=features.prompt_tokens,
            safety_flags=flags,
            model_version=model_version,
            fallback_reason=judgement.fallback_reason,
        )
        if judgement.prediction is not None:
            response.MergeFrom(_predicted(judgement.prediction))
        return response


def _wants_probabilities(request: classifier_pb2.ClassifyRequest, judgement: Judgement, model: LearntModel) -> bool:
    good_enough = model.right_basis == "outcomes" or not request.only_measured_probabilities
    # A fixed answer is right or is not given; there is nothing to predict.
    return request.want_right_probabilities and good_enough and judgement.complexity > 0


def _predicted(prediction: Prediction) -> classifier_pb2.ClassifyResponse:
    return classifier_pb2.ClassifyResponse(
        expected_output_token_count=prediction.answer_tokens,
        expected_output_confidence=prediction.answer_tokens_confidence,
        complexity_confidence=prediction.complexity_confidence,
        small_right_probability=prediction.small_right,
        large_right_probability=prediction.large_right,
        right_probability_basis=prediction.right_basis,
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


def _describe(judgement: Judgement, features: Features, version: str, flags: tuple[str, ...]) -> None:
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
            "tiermesh.classifier.fallback_reason": judgement.fallback_reason,
            "tiermesh.classifier.safety_flags": flags,
        }
    )
    if judgement.prediction is not None:
        span.set_attributes(
            {
                "tiermesh.classifier.expected_output_tokens": judgement.prediction.answer_tokens,
                "tiermesh.classifier.small_right_probability": judgement.prediction.small_right,
                "tiermesh.classifier.large_right_probability": judgement.prediction.large_right,
            }
        )
    span.set_attributes({f"tiermesh.classifier.feature.{name}": value for name, value in features.numbers().items()})
