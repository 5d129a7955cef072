"""One test per rule of ADS, on both variants, without a network."""

import pytest
from harness.xds import CDS, EDS, LDS, RDS, Client, cluster, contents, kinds, snapshot
from tiermesh.mesh.push_order import PUSH_ORDER, REMOVAL_ORDER


@pytest.fixture(params=["sotw", "delta"])
def variant(request):
    return request.param


@pytest.fixture
def client(variant):
    started = Client(variant, snapshot("a", "b"))
    started.start()
    return started


def removed(response):
    return set(response.removed_resources) if hasattr(response, "removed_resources") else set()


def test_order_on_one_stream_is_cds_eds_lds_rds(client):
    changed = snapshot(cluster("a", "2s"), "b", a=7, port=81)
    changed_routes = snapshot(cluster("a", "2s"), "b", "c", a=7, port=81)
    client.ask(EDS, "a", "b", "c")
    assert kinds(client.push(changed))[:3] == [CDS, EDS, LDS]
    assert kinds(client.push(changed_routes)) == [CDS, EDS, RDS]
    assert PUSH_ORDER == (CDS, EDS, LDS, RDS)


def test_removals_come_in_reverse_after_the_routes_stopped_leading_there(client):
    responses = client.push(snapshot("a"))
    order = kinds(responses)
    assert REMOVAL_ORDER == (RDS, LDS, EDS, CDS)
    # The routes change first; the cluster they led to goes last.
    assert order.index(RDS) < len(order) - 1
    assert order[-1] is CDS
    for response in responses[: order.index(RDS)]:
        assert "b" not in removed(response)
        assert client.variant == "delta" or contents(response) >= {"b"} or response.type_url != CDS.value
    last = responses[-1]
    assert removed(last) == {"b"} if client.variant == "delta" else contents(last) == {"a"}


def test_a_replaced_cluster_stays_until_its_successor_is_routed_to(client):
    client.ask(EDS, "a", "b", "c")
    responses = client.push(snapshot("a", "c"))
    by_kind = [(kind, contents(r), removed(r)) for kind, r in zip(kinds(responses), responses, strict=True)]
    first_cds = next(row for row in by_kind if row[0] is CDS)
    assert "c" in first_cds[1]
    assert "b" not in first_cds[2]
    assert client.variant == "delta" or "b" in first_cds[1]


def test_nonce_is_stored_before_sending(client):
    first = client.push(snapshot("a", "b", a=2))[0]
    # The answer to the first arrives although a second was produced already: it is not taken for the second's.
    second = client.push(snapshot("a", "b", a=3))[0]
    assert first.nonce != second.nonce
    assert client.answer(second) == []
    version = client.subscriber.acknowledged[EDS]
    assert client.answer(first) == []
    assert client.subscriber.acknowledged[EDS] == version


def test_every_response_has_a_nonce_of_its_own(client):
    nonces = [r.nonce for n in range(2, 6) for r in client.push(snapshot(cluster("a", f"{n}s"), "b", a=n, port=n))]
    assert len(nonces) == len(set(nonces)) >= 12


def test_stale_nonces_are_ignored(client):
    old = client.push(snapshot("a", "b", a=2))[0]
    client.push(snapshot("a", "b", a=3))
    assert client.answer(old) == []
    assert client.ask(EDS, "a", nonce=old.nonce) == [] or client.variant == "delta"
    acknowledged = dict(client.subscriber.acknowledged)
    client.answer(old)
    assert client.subscriber.acknowledged == acknowledged


def test_node_comes_only_on_the_first_message(client):
    # `Client` never sends a node: the state machine must not look for one.
    assert client.subscriber.node_id == "node"
    assert set(client.subscriber.acknowledged) == {CDS, EDS, LDS, RDS}


def test_nack_is_error_detail_and_not_the_version(client):
    response = client.push(snapshot(cluster("a", "2s"), "b"))[0]
    before = client.subscriber.acknowledged[CDS]
    client.answer(response, error="no good")
    assert client.subscriber.acknowledged[CDS] == before
    assert client.subscriber.last_error == "cluster: no good"


def test_an_old_version_without_error_detail_is_no_nack():
    client = Client("sotw", snapshot("a", "b"))
    client.start()
    client.push(snapshot("a", "b", a=2))
    # Envoy changes its interest with the version it had before.
    assert client.ask(EDS, "a", version_info="something old") == []
    assert client.subscriber.last_error == ""


def test_a_nack_parks_the_type_until_the_snapshot_changes(client):
    bad = snapshot(cluster("a", "2s"), "b")
    for response in client.push(bad):
        assert client.answer(response, error="no good" if response.type_url == CDS.value else "") == []
    # The same again, and a change of another type: nothing is sent of the refused one.
    assert client.push(bad) == []
    assert CDS not in kinds(client.push(snapshot(cluster("a", "2s"), "b", b=9)))
    repaired = client.push(snapshot(cluster("a", "3s"), "b", b=9))
    assert kinds(repaired)[0] is CDS
    client.answer(repaired[0])
    assert client.subscriber.last_error == ""


def test_good_resources_of_a_refused_response_are_applied_so_going_back_sends_them_again(client):
    good, bad = snapshot("a", "b"), snapshot(cluster("a", "2s"), cluster("b", "2s"))
    refused = client.push(bad)[0]
    client.answer(refused, error="b is no good")
    back = client.push(good)[0]
    assert contents(back) == {"a", "b"}
    assert back.type_url == CDS.value


def test_delta_an_earlier_refusal_is_not_forgotten_when_a_later_response_is_acknowledged():
    client = Client("delta", snapshot("a", "b"))
    client.start()
    first = client.push(snapshot(cluster("a", "2s"), "b"))[0]
    second = client.push(snapshot(cluster("a", "2s"), cluster("b", "2s")))[0]
    client.answer(first, error="a is no good")
    client.answer(second)
    assert client.subscriber.last_error == "cluster: a is no good"
    third = client.push(snapshot(cluster("a", "3s"), cluster("b", "2s")))[0]
    client.answer(third)
    assert client.subscriber.last_error == ""


def test_a_changed_cluster_gets_its_eds_again_even_when_eds_is_unchanged(client):
    responses = client.push(snapshot(cluster("a", "2s"), "b"))
    assert kinds(responses) == [CDS, EDS]
    assert "a" in contents(responses[1])
    assert client.variant == "sotw" or contents(responses[1]) == {"a"}


def test_eds_is_sent_without_waiting_for_the_cds_ack(client):
    # Neither response has been answered when the other is there.
    cds, eds = client.push(snapshot(cluster("a", "2s"), "b"))
    assert (cds.type_url, eds.type_url) == (CDS.value, EDS.value)
    again = client.push(snapshot(cluster("a", "3s"), "b"))
    assert kinds(again) == [CDS, EDS]


def test_a_cds_answer_on_a_reconnect_is_followed_by_eds_if_eds_was_asked_first(variant):
    client = Client(variant, snapshot("a", "b"))
    client.ask(EDS, "a", "b")
    assert kinds(client.ask(CDS)) == [CDS, EDS]


def test_a_new_clusters_eds_comes_when_it_is_asked_for(client):
    assert EDS not in kinds(client.push(snapshot("a", "b", "c", c=5)))
    (response,) = client.ask(EDS, "a", "b", "c") if client.variant == "sotw" else client.ask(EDS, "c")
    assert "c" in contents(response)


def test_wildcard_means_all_present_and_future_resources(client):
    assert contents(client.push(snapshot("a", "b", "c"))[0]) >= {"c"}


def test_an_explicit_star_is_a_wildcard(variant):
    client = Client(variant, snapshot("a", "b"))
    assert contents(client.ask(CDS, "*")[0]) == {"a", "b"}


def test_named_resources_only_are_sent(variant):
    client = Client(variant, snapshot("a", "b"))
    (response,) = client.ask(CDS, "a")
    assert contents(response) == {"a"}
    client.answer(response)
    assert client.push(snapshot("a", cluster("b", "2s"))) == []


def test_no_names_after_names_means_nothing_and_not_everything(variant):
    client = Client(variant, snapshot("a", "b"))
    client.answer(client.ask(CDS, "a")[0])
    assert client.drop(CDS, "a") == []
    assert client.push(snapshot(cluster("a", "2s"), cluster("b", "2s"))) == []


def test_leaving_the_wildcard_keeps_the_named_ones(variant):
    client = Client(variant, snapshot("a", "b"))
    client.answer(client.ask(CDS, "*", "a")[0])
    client.drop(CDS, "*")
    responses = client.push(snapshot(cluster("a", "2s"), cluster("b", "2s")))
    assert contents(responses[0]) == {"a"}


def test_delta_asking_again_for_a_held_resource_sends_it_again():
    client = Client("delta", snapshot("a", "b"))
    client.start()
    assert contents(client.ask(EDS, "a")[0]) == {"a"}


def test_a_resource_that_does_not_exist_yet_is_sent_once_it_does(variant):
    client = Client(variant, snapshot("a"))
    client.ask(CDS)
    for response in client.ask(EDS, "later"):
        assert removed(response) == {"later"}
        client.answer(response)
    responses = client.push(snapshot("a", "later"))
    assert EDS in kinds(responses)
    assert contents(responses[kinds(responses).index(EDS)]) == {"later"}


def test_an_unknown_type_is_ignored(client, variant):
    from envoy.service.discovery.v3 import discovery_pb2

    kind = discovery_pb2.DiscoveryRequest if variant == "sotw" else discovery_pb2.DeltaDiscoveryRequest
    assert client.stream.on_request(kind(type_url="type.googleapis.com/x.Secret")) == []


def test_sotw_reconnect_with_an_old_version_and_an_empty_nonce_gets_all_again():
    client = Client("sotw", snapshot("a", "b"))
    (response,) = client.ask(CDS, version_info="of another stream", nonce="")
    assert contents(response) == {"a", "b"}


def test_delta_reconnect_says_what_it_holds_and_gets_only_what_differs():
    current = snapshot("a", "b")
    held = {name: r.version for name, r in current.of_type(CDS).items()}
    client = Client("delta", current)
    assert client.ask(CDS, initial_resource_versions=held) == []
    # It counts as acknowledged: the client has it.
    started = Client("delta", current)
    started.start()
    assert client.subscriber.acknowledged[CDS] == started.subscriber.acknowledged[CDS]
    client = Client("delta", current)
    (response,) = client.ask(CDS, initial_resource_versions={**held, "a": "old", "gone": "x"})
    assert contents(response) == {"a"}
    assert removed(response) == {"gone"}


def test_delta_reconnect_gets_endpoints_anew_as_a_cluster_may_be_warming():
    current = snapshot("a", "b")
    held = {name: r.version for name, r in current.of_type(EDS).items()}
    (response,) = Client("delta", current).ask(EDS, "a", "b", initial_resource_versions=held)
    assert contents(response) == {"a", "b"}


def test_versions_are_hashes_of_content_so_a_restart_changes_none(variant):
    def versions():
        client = Client(variant, snapshot("a", "b"))
        client.start()
        return client.subscriber.acknowledged

    assert versions() == versions()
    assert len(set(versions().values())) == 4


def test_nothing_is_sent_when_nothing_changed(client):
    assert client.push(snapshot("a", "b")) == []
