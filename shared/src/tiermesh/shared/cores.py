"""Which core a process of one machine keeps to.

An interpreter runs one thread at a time, but a service has several: its event loop, those in which gRPC reads, polls and
wakes, the exporter of spans. Spread over cores, they hand every message and the interpreter's lock from core to core, by
interrupts that virtual machines pay dearly for. On one core that is an ordinary switch.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.endpoints import CACHE, CLASSIFIER, ROUTER, engine_cluster


def core_for(config: TiermeshConfig, cluster: str, replica: int, cores: Sequence[int]) -> int | None:
    """Returns the core that all threads of a process are to run on, or None where the system is to choose.

    Routers, which have most to do, share no core with anybody else as long as there are enough. Replicas of a service
    are spread, and a replica's core does not depend on how many there are.

    Args:
        config: The mesh's.
        cluster: Cluster that the process is a replica of.
        replica: Number of the replica.
        cores: Cores that the process may use, in a fixed order.
    """
    if len(cores) < 2 or not _keeps_to_one(config):
        return None
    if cluster == ROUTER:
        return cores[replica % len(cores)]
    # What computes beside its event loop, without the interpreter's lock, is left free; so is what has little to do.
    places = [CLASSIFIER]
    places += [] if config.cache.semantic_enabled else [CACHE]
    places += [engine_cluster(tier.name) for tier in config.tiers if tier.backend != "vllm"]
    if cluster not in places:
        return None
    others = cores[1:]
    return others[(places.index(cluster) + replica) % len(others)]


def _keeps_to_one(config: TiermeshConfig) -> bool:
    if config.discovery.mode != "local":
        # A pod shares its node's cores with pods that nobody here knows of.
        return False
    if config.cores.services == "auto":
        # A language model on this machine takes whole cores, and which of them is not known.
        return all(tier.backend != "vllm" for tier in config.tiers)
    return config.cores.services == "one"
