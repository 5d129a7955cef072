"""How the processes of one machine share its cores."""

from __future__ import annotations

from typing import Literal

from tiermesh.shared.config._section import Section


class CoresConfig(Section):
    """How the processes of one machine use its cores. Pods are placed by Kubernetes."""

    services: Literal["auto", "one", "any"] = "any"
    """Whether each router, classifier, cache and engine without a language model keeps to `one` core, or may use `any`. An
    interpreter cannot use two at once, and handing work across cores costs it up to a sixth of its speed; but on few cores that
    are all busy, more lookups of a cache that is bound are late. `auto`: one, unless a tier's backend is `vllm`, which needs cores
    for itself. A cache with the semantic tier on always may use any. Takes effect when a process starts."""
