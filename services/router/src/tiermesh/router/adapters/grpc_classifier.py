"""The classifier over gRPC."""

from __future__ import annotations

import grpc
from opentelemetry.trace import Tracer
from tiermesh.api.classifier.v1 import classifier_pb2, classifier_pb2_grpc
from tiermesh.shared.budget import Budget
from tiermesh.shared.rpc import call_unary


class GrpcClassifier:
    """A `ClassifierPort`."""

    def __init__(self, channel: grpc.aio.Channel, tracer: Tracer) -> None:
        self._stub = classifier_pb2_grpc.ClassifierServiceStub(channel)
        self._tracer = tracer

    async def classify(
        self, request: classifier_pb2.ClassifyRequest, *, budget: Budget
    ) -> classifier_pb2.ClassifyResponse:
        """Returns the judgement."""
        return await call_unary(
            self._stub.Classify, request, name="ClassifierService/Classify", budget=budget, tracer=self._tracer
        )
