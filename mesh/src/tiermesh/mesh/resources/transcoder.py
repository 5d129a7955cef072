"""Transcoding: JSON and server-sent events to and from the gRPC services behind the ingress."""

from __future__ import annotations

import base64
from functools import cache
from importlib import resources
from typing import Any

from envoy.extensions.filters.http.grpc_json_transcoder.v3 import transcoder_pb2
from google.protobuf import any_pb2, descriptor_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from tiermesh.mesh.resources.message import typed
from tiermesh.shared.config import LimitsConfig

SERVICES = ("tiermesh.api.router.v1.RouterService", "tiermesh.api.openai.v1.OpenAIService")
"""gRPC services with an HTTP form."""

_ENVELOPE_BYTES = 64 * 1024
_LARGEST_EVENT_BYTES = 64 * 1024 * 1024


@cache
def descriptor_set() -> bytes:
    """Returns the packaged descriptors of the whole API, imports included, and those of error details.

    Without the latter the transcoder drops the body of every error that has details.
    """
    packaged = resources.files("tiermesh.api").joinpath("descriptors.binpb").read_bytes()
    files = descriptor_pb2.FileDescriptorSet.FromString(packaged)
    present = {file.name for file in files.file}
    for proto in (any_pb2, duration_pb2, error_details_pb2, status_pb2):
        if proto.DESCRIPTOR.name not in present:
            files.file.add().ParseFromString(proto.DESCRIPTOR.serialized_pb)
    return files.SerializeToString(deterministic=True)


def make_transcoder_filter(limits: LimitsConfig) -> dict[str, Any]:
    """Returns the filter.

    Unknown query parameters are ignored, as SDKs and proxies add their own. So are body fields that the typed API does
    not know: the transcoder has no switch for that. The OpenAI surface is not affected, since its bodies pass untouched
    and the router reads them.
    """
    return {
        "name": "envoy.filters.http.grpc_json_transcoder",
        "typed_config": typed(
            transcoder_pb2.GrpcJsonTranscoder,
            {
                "proto_descriptor_bin": base64.b64encode(descriptor_set()).decode(),
                "services": list(SERVICES),
                "convert_grpc_status": True,
                "ignore_unknown_query_parameters": True,
                # Model names may hold slashes: `GET /v1/models/Qwen%2FQwen3-8B`.
                "url_unescape_spec": "ALL_CHARACTERS",
                "print_options": {
                    "preserve_proto_field_names": True,
                    "always_print_primitive_fields": True,
                    "stream_sse_style_delimited": True,
                },
                "max_request_body_size": limits.max_request_bytes,
                "max_response_body_size": max(limits.max_request_bytes, _LARGEST_EVENT_BYTES) + _ENVELOPE_BYTES,
            },
        ),
    }
