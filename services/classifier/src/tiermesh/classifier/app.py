"""Composition root of the classifier."""

from __future__ import annotations

import asyncio

from opentelemetry.metrics import Meter
from tiermesh.api.classifier.v1 import classifier_pb2, classifier_pb2_grpc
from tiermesh.classifier.metrics import JudgementMetrics
from tiermesh.classifier.model import BatchedModel, open_model
from tiermesh.classifier.ports import LearntModel
from tiermesh.classifier.servicer import ClassifierServicer
from tiermesh.shared.process import Process
from tiermesh.shared.rpc import Service, open_server, serve_until_signal
from tiermesh.shared.rules import CurrentRules, follow_rules, load_rules
from tiermesh.shared.telemetry import get_logger

_log = get_logger(__name__)


def wire(rules: CurrentRules, model: LearntModel | None = None, *, meter: Meter | None = None) -> Service:
    """Builds the service over the rules in force, and over a learnt model for what they are not sure of."""
    servicer = ClassifierServicer(rules, model, JudgementMetrics(meter))
    name = classifier_pb2.DESCRIPTOR.services_by_name["ClassifierService"].full_name
    return Service(name, lambda server: classifier_pb2_grpc.add_ClassifierServiceServicer_to_server(servicer, server))


async def run(process: Process) -> None:
    """Serves until the process is told to stop; changes of the rules file take effect while it runs.

    Raises:
        ConfigError: the rules file cannot be used.
        ModelUnusable: the learnt model is missing or damaged.
    """
    config = process.config
    rules = CurrentRules(load_rules(config.rules))
    model = open_model(config.classifier.model, timeout_s=config.classifier.model_timeout_ms / 1000)
    with process.open_meter("tiermesh-classifier") as meter:
        await _serve(process, rules, model, meter)


async def _serve(process: Process, rules: CurrentRules, model: BatchedModel | None, meter: Meter | None) -> None:
    config = process.config
    async with (
        process.open_tracing("tiermesh-classifier") as tracing,
        open_server(
            [wire(rules, model, meter=meter)],
            address=process.address,
            tls=process.server_tls(),
            tracing=tracing,
            default_deadline_s=config.deadlines.max_ms / 1000,
            drain_s=config.drain_s,
        ) as server,
    ):
        following = asyncio.create_task(follow_rules(rules, process.config_path, process.environ))
        try:
            await server.set_serving(True)
            _log.info(
                "serving", address=process.address, rules=rules.book.version, model=model.version if model else "off"
            )
            await serve_until_signal(server, drain_s=config.drain_s, tasks=[following])
        finally:
            following.cancel()
            await asyncio.wait({following})
            if model is not None:
                model.close()
