"""Kubernetes' own schemas, as packed in kubernetes-validate, read once each."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema
from kubernetes_validate.utils import all_versions
from referencing import Registry, Resource

VERSIONS = all_versions()
"""Every release of Kubernetes that there are schemas of, such as `1.29.0`, oldest first."""


def check_object(item: dict[str, Any], version: str) -> None:
    """Checks an object as a release of Kubernetes would; a field that it does not know is an error.

    Raises:
        jsonschema.ValidationError: the object is wrong; the message names the field.
        FileNotFoundError: that release has no such kind.
    """
    group, _, api = item["apiVersion"].rpartition("/")
    name = "-".join(part for part in (item["kind"].lower(), group.split(".")[0], api) if part)
    _validator(version, name).validate(item)


@cache
def _validator(version: str, name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(_read(version, name), registry=_definitions(version))


@cache
def _definitions(version: str) -> Registry[Any]:
    return Resource.from_contents(_read(version, "_definitions")) @ Registry()


def _read(version: str, name: str) -> Any:
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}-local-strict"
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
