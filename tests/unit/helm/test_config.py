"""The files in the ConfigMap are the ones that the processes take, and say what the objects say."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path

import pytest
import yaml
from harness.eventually import eventually
from harness.helm import CHART, NAMESPACE, ROOT, VALUE_SETS, main_container, render
from tiermesh.mesh.bootstrap import make_bootstrap
from tiermesh.mesh.resources import make_cluster
from tiermesh.shared.config import TiermeshConfig, load_config, watch_config
from tiermesh.shared.endpoints import cluster_names, mesh_target, span_endpoint
from tiermesh.shared.rules import load_rules


def test_processes_take_the_configuration(release, config_of):
    config = config_of(release)
    assert config.discovery.mode == "dns"
    assert config.rules.name == "rules.yaml"


def test_processes_take_the_rules(config_of):
    assert load_rules(config_of(render()).rules).version


def test_every_tier_has_its_engine_and_the_other_way_round(release, config_of):
    tiers = [tier.name for tier in config_of(release).tiers]
    engines = {
        argument.removeprefix("--tier=")
        for workload in release.all("Deployment")
        for argument in main_container(workload).get("command", ())
        if argument.startswith("--tier=")
    }
    assert engines == set(tiers)


@pytest.mark.parametrize("name", ["default", "gpu"])
def test_tiers_arrive_as_they_were_given(name, config_of):
    given = VALUE_SETS[name].get("tiers")
    config = config_of(render(VALUE_SETS[name]))
    assert [t.name for t in config.tiers] == ["l0", "l1", "l2"]
    for tier, values in zip(config.tiers, given or (), strict=False):
        for key, value in values["config"].items():
            assert getattr(tier, key) == (tuple(value) if isinstance(value, list) else value)


def test_envoy_finds_every_service_by_the_name_of_its_headless_service(release, config_of):
    config = config_of(release)
    services = {s["metadata"]["name"]: s["spec"] for s in release.all("Service")}
    for name in cluster_names(config):
        if name == "cache" and not config.cache.enabled:
            continue
        (endpoint,) = make_cluster(config, name).load_assignment.endpoints[0].lb_endpoints
        address = endpoint.endpoint.address.socket_address
        service, namespace, _ = address.address.split(".", 2)
        assert namespace == NAMESPACE
        assert services[service]["clusterIP"] == "None"
        assert [port["port"] for port in services[service]["ports"]] == [address.port_value]


def test_envoy_finds_the_control_plane_by_the_name_of_its_service(release, config_of):
    (cluster,) = make_bootstrap(config_of(release), role="sidecar")["static_resources"]["clusters"]
    (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
    address = endpoint["endpoint"]["address"]["socket_address"]
    service = release.one("Service", address["address"].split(".")[0])
    assert [port["port"] for port in service["spec"]["ports"]] == [address["port_value"]]
    assert service["spec"]["selector"]["app.kubernetes.io/component"] == "control-plane"


def test_ports_of_the_configuration_are_the_ports_of_the_pods(release, config_of):
    config = config_of(release)
    router = release.workload("router")
    sidecar = router["spec"]["template"]["spec"]["initContainers"][1]
    assert mesh_target(config) == f"127.0.0.1:{sidecar['ports'][0]['containerPort']}"
    assert f"--listen=0.0.0.0:{config.discovery.service_port}" in main_container(router)["command"]
    assert main_container(release.workload("ingress"))["ports"][0]["containerPort"] == config.network.ingress_port
    control_plane = main_container(release.workload("control-plane"))
    assert f"--listen=0.0.0.0:{config.network.xds_port}" in control_plane["command"]
    assert config.network.bind == "0.0.0.0", "the ingress is called from other machines"


def test_scaling_changes_no_file():
    assert render().config_files() == render({"router": {"replicas": 9}, "engine": {"replicas": 3}}).config_files()


def test_every_section_can_be_given():
    own = {"network", "discovery", "tls", "tenants", "tiers", "rules"}
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    offered = schema["properties"]["config"]["properties"]
    assert set(offered) | own == set(TiermeshConfig.model_fields)
    # The default values name all of them, for whoever looks there.
    given = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["config"]
    assert set(given) == set(offered)


def test_a_tenant_may_weigh_more(config_of):
    tenant = {"name": "default", "keysFrom": "file", "secret": {"name": "keys", "key": "default"}, "weight": 2.5}
    assert config_of(render({"tenants": [tenant]})).tenants[0].weight == 2.5


def test_a_replay_report_lies_beside_the_configuration(config_of):
    release = render({"banditReport": '{"format": 1}', "config": {"outcomes": {"enabled": True}}})
    report = config_of(release).bandit.report
    assert report is not None
    assert json.loads(report.read_text(encoding="utf-8")) == {"format": 1}


def test_spans_go_straight_to_the_collector(config_of):
    release = render({"config": {"tracing": {"otlp_endpoint": "http://otel.example:4317"}}})
    assert span_endpoint(config_of(release), {}) == "http://otel.example:4317"
    assert span_endpoint(config_of(render()), {}) is None


def test_large_numbers_keep_their_digits(config_of):
    config = config_of(render({"config": {"limits": {"max_request_bytes": 33_554_432}}}))
    assert config.limits.max_request_bytes == 33_554_432


@pytest.mark.parametrize("as_text", [True, False])
def test_own_rules_replace_the_example(as_text, tmp_path):
    rules = {"greetings": [{"name": "hi", "language": "en", "phrases": ["hello mesh"], "answer": "Hello!"}]}
    text = "greetings:\n  - {name: hi, language: en, phrases: [hello mesh], answer: Hello!}\n"
    release = render({"rules": text if as_text else rules})
    path = tmp_path / "rules.yaml"
    path.write_text(release.config_files()["rules.yaml"], encoding="utf-8")
    assert load_rules(path).version != load_rules(ROOT / "mesh" / "profiles" / "rules.yaml").version


def test_rules_default_to_those_of_the_local_profile():
    profile = (ROOT / "mesh" / "profiles" / "rules.yaml").read_text(encoding="utf-8")
    assert render().config_files()["rules.yaml"].strip() == profile.strip()


def test_keys_come_from_secrets_only(release, config_of):
    control_plane = release.workload("control-plane")["spec"]["template"]["spec"]
    environment = {e["name"]: e for e in control_plane["containers"][0]["env"]}
    mounted = {
        Path("/etc/tiermesh-keys") / item["path"]
        for volume in control_plane["volumes"]
        for source in volume.get("projected", {}).get("sources", ())
        for item in source["secret"]["items"]
    }
    assert release.all("Secret") == []
    for tenant in config_of(release).tenants:
        if tenant.key_file is not None:
            assert tenant.key_file in mounted
        else:
            assert "secretKeyRef" in environment[tenant.key_env]["valueFrom"]


@pytest.mark.parametrize(
    ("values", "url"),
    [
        ({}, "redis://tiermesh-redis.inference.svc.cluster.local:6379/0"),
        (
            {"redis": {"password": {"name": "auth"}}},
            "redis://:$(REDIS_PASSWORD)@tiermesh-redis.inference.svc.cluster.local:6379/0",
        ),
        (VALUE_SETS["existing redis by url"], "redis://redis.data:6379/0"),
        *(
            ({"redis": {"enabled": False, "existing": {"url": url}}}, url)
            for url in ("redis+cluster://redis.data:6379", "rediss+sentinel://a.data:26379,b.data:26379/mesh")
        ),
    ],
)
def test_the_cache_finds_redis(values, url):
    release = render(values)
    environment = {e["name"]: e for e in main_container(release.workload("cache"))["env"]}
    assert environment["REDIS_URL"]["value"] == url
    assert len(release.all("StatefulSet")) == (1 if "tiermesh-redis" in url else 0)


def test_an_existing_redis_may_be_a_secret():
    release = render(VALUE_SETS["production"])
    environment = {e["name"]: e for e in main_container(release.workload("cache"))["env"]}
    assert environment["REDIS_URL"]["valueFrom"]["secretKeyRef"] == {"name": "tiermesh-redis", "key": "url"}
    assert release.all("StatefulSet") == []


def test_without_a_cache_there_is_neither_cache_nor_redis(config_of):
    release = render(VALUE_SETS["no cache"])
    components = {w["metadata"]["labels"]["app.kubernetes.io/component"] for w in release.workloads}
    assert not config_of(release).cache.enabled
    assert components.isdisjoint({"cache", "redis"})


def test_a_configuration_is_found_again_after_kubernetes_has_replaced_it(tmp_path):
    """Kubernetes keeps the files behind a link to a dated folder, which it replaces and deletes."""
    _publish(tmp_path, "first", render().config_files())
    before = load_config(tmp_path / "tiermesh.yaml")
    _publish(tmp_path, "second", render({"config": {"limits": {"burst": 7}}}).config_files())
    assert before.rules.exists()
    assert load_config(tmp_path / "tiermesh.yaml").limits.burst == 7


async def test_a_change_of_the_config_map_is_followed(tmp_path):
    _publish(tmp_path, "first", render().config_files())
    changes = watch_config(tmp_path / "tiermesh.yaml")
    seen = asyncio.create_task(anext(changes))
    versions = itertools.count(2)

    async def published() -> bool:
        # Once more each time: the watch tells nobody when it has begun.
        burst = next(versions)
        _publish(tmp_path, str(burst), render({"config": {"limits": {"burst": burst}}}).config_files())
        await asyncio.wait({seen}, timeout=0.5)
        return seen.done()

    await eventually(published)
    changed = seen.result()
    assert isinstance(changed, TiermeshConfig)
    assert changed.limits.burst >= 2
    await changes.aclose()


def _publish(folder: Path, version: str, files: dict[str, str]) -> None:
    dated, link = folder / f"..{version}", folder / "..data"
    dated.mkdir()
    for name, text in files.items():
        (dated / name).write_text(text, encoding="utf-8")
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)
    old = link.resolve() if link.is_symlink() else None
    new = folder / "..data_tmp"
    new.symlink_to(dated.name)
    new.replace(link)
    if old is not None:
        for path in old.iterdir():
            path.unlink()
        old.rmdir()
