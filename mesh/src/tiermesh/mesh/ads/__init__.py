"""Aggregated discovery: one stream per Envoy, state-of-the-world or delta.

`sotw` and `delta` are state machines without I/O: a request or a new snapshot in, responses out.
`servicer` is the transport.
"""

from tiermesh.mesh.ads.servicer import AdsServicer
from tiermesh.mesh.ads.subscribers import Subscriber, Subscribers

__all__ = ["AdsServicer", "Subscriber", "Subscribers"]
