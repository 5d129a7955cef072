"""Authentication: an API key names a tenant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envoy.extensions.filters.http.api_key_auth.v3 import api_key_auth_pb2
from envoy.extensions.filters.http.header_mutation.v3 import header_mutation_pb2  # noqa: F401 -- registers its type
from envoy.extensions.http.early_header_mutation.header_mutation.v3 import header_mutation_pb2 as early_pb2
from tiermesh.mesh.api_keys import ApiKeys
from tiermesh.mesh.resources.message import typed
from tiermesh.shared.headers import TENANT

AUTH_FILTER = "envoy.filters.http.api_key_auth"

_SOURCES = {
    "key_sources": [{"header": "Authorization"}],
    # Services get the tenant and never see a key.
    "forwarding": {"header": TENANT, "hide_credentials": True},
}


def make_auth_filter() -> dict[str, Any]:
    """Returns the filter. It knows no key: keys come with the routes, so that changing one drains no listener."""
    return {"name": AUTH_FILTER, "typed_config": typed(api_key_auth_pb2.ApiKeyAuth, _SOURCES)}


def make_auth_rules(keys: ApiKeys) -> Mapping[str, Any]:
    """Returns the routes' part of the filter: which key is whose."""
    credentials = [{"key": key, "client": tenant} for key, tenant in keys.pairs()]
    return typed(api_key_auth_pb2.ApiKeyAuthPerRoute, {"credentials": credentials, **_SOURCES})


def make_tenant_strip() -> dict[str, Any]:
    """Returns the mutation that removes a tenant claimed by the caller, before any filter can read it."""
    return {
        "name": "envoy.http.early_header_mutation.header_mutation",
        "typed_config": typed(early_pb2.HeaderMutation, {"mutations": [{"remove": TENANT}]}),
    }
