"""Whatever happens on a stream, a client ends up with the snapshot, and never routes to a cluster that it lacks."""

from harness.xds import CDS, EDS, LDS, RDS, Client, cluster, contents, kinds, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from tiermesh.mesh.resource_type import ResourceType
from tiermesh.mesh.snapshot import Snapshot

_NAMES = ("a", "b", "c", "d")


@st.composite
def snapshots(draw):
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, unique=True).map(sorted))
    clusters = [cluster(name, draw(st.sampled_from(["1s", "2s"]))) for name in names]
    ports = {name: draw(st.integers(1, 2)) for name in names}
    return snapshot(*clusters, door="door", port=draw(st.integers(80, 81)), **ports)


class Envoy:
    """Applies responses the way Envoy does: subscribes to the endpoints of its clusters, and warms changed ones."""

    def __init__(self, variant: str, first: Snapshot, lost: set[int]) -> None:
        self.client = Client(variant, first)
        self.current = first
        self.lost = lost
        """Numbers of responses that are not answered."""
        self.held: dict[ResourceType, dict[str, str]] = {kind: {} for kind in (CDS, EDS, LDS, RDS)}
        self.warming: set[str] = set()
        self.count = 0
        self.apply(self.client.ask(CDS))
        self.apply(self.client.ask(LDS))
        self.apply(self.client.ask(RDS, "door"))

    def apply(self, responses) -> None:
        for kind, response in zip(kinds(responses), responses, strict=True):
            self.count += 1
            names, held = contents(response), self.held[kind]
            gone = set(getattr(response, "removed_resources", ()))
            if self.client.variant == "sotw" and kind.whole:
                gone = held.keys() - names
            for name in gone:
                held.pop(name, None)
            present = self.current.of_type(kind)
            for name in names:
                # Something on its way out is still sent as it was.
                version = present[name].version if name in present else held.get(name, "old")
                if kind is CDS and held.get(name) != version:
                    self.warming.add(name)
                held[name] = version
            if kind is EDS:
                self.warming -= names
            routed = {n for door in self.held[RDS] for n in self.routes_of(door)}
            assert kind is not RDS or routed <= self.held[CDS].keys()
            if self.count not in self.lost:
                self.client.answer(response)
            if kind is CDS:
                self.follow_endpoints(gone)

    def routes_of(self, door: str) -> set[str]:
        message = self.current.of_type(RDS)[door].message
        return {route.route.cluster for host in message.virtual_hosts for route in host.routes}

    def follow_endpoints(self, gone: set[str]) -> None:
        wanted, asked = sorted(self.held[CDS]), set(self.client.names.get(EDS, []))
        if gone & asked:
            if self.client.variant == "delta":
                self.apply(self.client.drop(EDS, *(gone & asked)))
            for name in gone:
                self.held[EDS].pop(name, None)
                self.warming.discard(name)
            self.client.names[EDS] = sorted(asked - gone)
        new = set(wanted) - asked
        if self.client.variant == "sotw" and set(wanted) != asked:
            self.apply(self.client.ask(EDS, *wanted))
        elif new:
            self.apply(self.client.ask(EDS, *sorted(new)))
            self.client.names[EDS] = wanted

    def push(self, changed: Snapshot) -> None:
        self.current = changed
        self.apply(self.client.push(changed))


@settings(max_examples=150)
@given(
    variant=st.sampled_from(["sotw", "delta"]),
    steps=st.lists(snapshots(), min_size=1, max_size=5),
    lost=st.sets(st.integers(1, 30), max_size=5),
)
def test_a_client_ends_up_with_the_snapshot_and_never_routes_into_nothing(variant, steps, lost):
    envoy = Envoy(variant, steps[0], lost)
    for step in steps[1:]:
        envoy.push(step)
    for kind in (CDS, LDS, RDS, EDS):
        assert envoy.held[kind] == {name: r.version for name, r in steps[-1].of_type(kind).items()}
    # Every changed cluster has had its endpoints since.
    assert envoy.warming == set()
    # And it stays so: nothing more is sent.
    assert envoy.client.push(steps[-1]) == []
