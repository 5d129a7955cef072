"""TLS in the chart: who gets which certificate, where it ends, and what is refused."""

from __future__ import annotations

import pytest
from harness.helm import NAMESPACE, VALUE_SETS, containers, main_container, render
from harness.helm_process import ChartRefused
from tiermesh.shared.endpoints import CONTROL_PLANE, cluster_names
from tiermesh.shared.tls import INGRESS, identity_of

OWN, PUBLIC = "/etc/tiermesh-tls", "/etc/tiermesh-ingress-tls"
ISSUER = {"enabled": True, "issuerRef": {"name": "ca"}}


def of(name: str):
    return render(VALUE_SETS[name])


def name_of(workload) -> str:
    component = workload["metadata"]["labels"]["app.kubernetes.io/component"]
    return CONTROL_PLANE if component == "control-plane" else component


def secrets(workload) -> dict[str, str]:
    volumes = workload["spec"]["template"]["spec"]["volumes"]
    return {v["name"]: v["secret"]["secretName"] for v in volumes if "secret" in v}


def everyone(workload):
    pod = workload["spec"]["template"]["spec"]
    return [*pod.get("initContainers", ()), *pod["containers"]]


def mounts(container) -> set[str]:
    return {mount["mountPath"] for mount in container["volumeMounts"]}


def test_off_unless_asked_for(config_of):
    release = render()
    assert not config_of(release).tls.mutual
    assert not config_of(release).tls.ingress.enabled
    assert not release.all("Certificate")
    for workload in release.all("Deployment"):
        assert not secrets(workload)
        assert not any("--probe-listen" in word for c in containers(workload) for word in c.get("command", ()))


@pytest.mark.parametrize("name", ["mutual TLS", "TLS by SPIFFE IDs, sidecars beside callers only", "production"])
def test_every_process_finds_its_own_certificate_where_the_configuration_says(name, config_of):
    release = of(name)
    tls = config_of(release).tls
    assert tls.mesh
    assert (str(tls.certificate), str(tls.trusted_ca)) == (f"{OWN}/tls.crt", f"{OWN}/ca.crt")
    for workload in release.all("Deployment"):
        assert secrets(workload)["tls"] == f"tiermesh-{name_of(workload)}-tls"
        for container in everyone(workload):
            assert OWN in mounts(container), container["name"]


@pytest.mark.parametrize("name", ["production", "TLS by SPIFFE IDs, sidecars beside callers only"])
def test_cert_manager_issues_what_the_processes_expect_of_each_other(name, config_of):
    release = of(name)
    config = config_of(release)
    issued = {item["spec"]["secretName"]: item["spec"] for item in release.all("Certificate")}
    assert set(issued) == {secrets(workload)["tls"] for workload in release.all("Deployment")}
    for service in (INGRESS, CONTROL_PLANE, *cluster_names(config)):
        spec, expected = issued[f"tiermesh-{service}-tls"], identity_of(config, service)
        assert spec["dnsNames" if expected.kind == "dns" else "uris"] == [expected.name]
        assert {"server auth", "client auth"} <= set(spec["usages"])
        assert spec["privateKey"]["rotationPolicy"] == "Always"


def test_dns_names_are_those_of_the_services(config_of):
    (certificate,) = [c for c in of("production").all("Certificate") if c["metadata"]["name"] == "tiermesh-router-tls"]
    assert certificate["spec"]["dnsNames"] == [f"tiermesh-router.{NAMESPACE}.svc.cluster.local"]


@pytest.mark.parametrize(
    ("name", "services", "control"),
    [("mutual TLS", 8082, 8082), ("TLS on the way of keys alone", 8081, 8082), ("TLS for callers alone", 8081, 18000)],
)
def test_kubelets_ask_where_no_certificate_is_needed(name, services, control):
    release = of(name)
    for workload in release.all("Deployment"):
        container = main_container(workload)
        if container["name"] == "envoy":
            continue
        expected = control if name_of(workload) == CONTROL_PLANE else services
        assert container["readinessProbe"]["grpc"]["port"] == expected
        assert (f"--probe-listen=0.0.0.0:{expected}" in container["command"]) is (expected == 8082)
        # What Envoys call stays where it was, and NetworkPolicies open nothing else.
        assert any(p["name"] in {"grpc", "xds"} for p in container["ports"])
    for policy in release.all("NetworkPolicy"):
        for rule in policy["spec"].get("ingress", ()):
            assert all(port["port"] != 8082 for port in rule["ports"])


@pytest.mark.parametrize("name", ["TLS for callers alone", "production"])
def test_the_ingress_shows_the_public_certificate_and_is_probed_by_https(name, config_of):
    release = of(name)
    ingress = release.workload("ingress")
    assert str(config_of(release).tls.ingress.certificate) == f"{PUBLIC}/tls.crt"
    for workload in release.all("Deployment"):
        assert ("ingress-tls" in secrets(workload)) is (workload is ingress)
    assert all(PUBLIC in mounts(container) for container in everyone(ingress))
    for probe in ("startupProbe", "readinessProbe"):
        assert main_container(ingress)[probe]["httpGet"]["scheme"] == "HTTPS"
    assert "curl -sk https://localhost" in release.notes


def test_the_notes_name_the_secrets_that_pods_wait_for():
    assert "Secret tiermesh-COMPONENT-tls" in of("mutual TLS").notes
    for name in ("production", "default"):
        assert "COMPONENT" not in of(name).notes


def test_a_switch_restarts_pods_since_processes_read_it_at_their_start():
    def sums(release):
        return [w["spec"]["template"]["metadata"]["annotations"]["checksum/startup"] for w in release.all("Deployment")]

    for before, after in zip(sums(render()), sums(of("mutual TLS")), strict=True):
        assert before != after


def test_the_alert_knows_the_metrics():
    values = {"prometheusRule": {"enabled": True, "certificateDays": 21}}
    (off,) = render(values).all("PrometheusRule")
    (on,) = render({**values, "tls": {"mesh": True}}).all("PrometheusRule")
    assert "tiermesh-certificates" not in {group["name"] for group in off["spec"]["groups"]}
    (group,) = [group for group in on["spec"]["groups"] if group["name"] == "tiermesh-certificates"]
    (alert,) = group["rules"]
    assert "tiermesh_tls_certificate_days_left) < 21" in alert["expr"]
    assert "envoy_server_days_until_first_cert_expiring) < 21" in alert["expr"]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"tls": {"mesh": True, "certManager": {"enabled": True}}}, "tls.certManager.issuerRef.name: name the Issuer"),
        ({"tls": {"certManager": ISSUER}}, "switch on tls.mesh or tls.controlPlane"),
        ({"ingress": {"tls": {"enabled": True}}}, "ingress.tls.secret: name the Secret"),
        ({"tls": {"mesh": True, "identity": "spiffe://cluster.local/router"}}, "identity"),
        ({"tls": {"mesh": "yes"}}, "mesh"),
        ({"ports": {"probe": 8081}}, "ports: must all differ"),
    ],
)
def test_what_cannot_work_is_refused(values, says):
    with pytest.raises(ChartRefused, match=says):
        render(values)
