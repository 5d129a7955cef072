"""The log of outcomes on Kubernetes: one replica, its volume, its reference, its alerts."""

from __future__ import annotations

import json

import pytest
import yaml
from harness.helm import main_container, render
from tiermesh.shared.config import parse_config

ON = {"config": {"outcomes": {"enabled": True}}}
REFERENCE = {"format": 1, "record_count": 100, "since": "", "until": "", "features": {}}


def volume(release):
    pod = release.workload("outcomes")["spec"]["template"]["spec"]
    return next(each for each in pod["volumes"] if each["name"] == "outcomes")


def test_without_a_log_there_is_nothing_of_it():
    release = render()
    assert not [w for w in release.workloads if w["metadata"]["name"].endswith("outcomes")]
    assert not release.all("PersistentVolumeClaim")


def test_it_is_one_replica_that_is_gone_before_the_next_one_comes():
    deployment = render(ON).workload("outcomes")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    container = main_container(deployment)
    assert container["image"].endswith("/outcomes:0.1.0")
    assert "tiermesh.outcomes" in container["command"]


def test_the_file_lies_in_a_volume_that_outlives_pod_and_release():
    release = render(ON)
    (claim,) = release.all("PersistentVolumeClaim")
    assert volume(release)["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    mounts = {m["name"]: m["mountPath"] for m in main_container(release.workload("outcomes"))["volumeMounts"]}
    # Below the state folder, where the process puts the file.
    assert mounts["outcomes"] == mounts["state"] + "/outcomes"
    own = render({**ON, "outcomes": {"persistence": {"enabled": True, "existingClaim": "mine"}}})
    assert volume(own)["persistentVolumeClaim"]["claimName"] == "mine"
    assert not own.all("PersistentVolumeClaim")
    assert volume(render({**ON, "outcomes": {"persistence": {"enabled": False}}}))["emptyDir"] == {}


@pytest.mark.parametrize("given", [json.dumps(REFERENCE), REFERENCE])
def test_a_reference_becomes_a_file_beside_the_configuration_and_restarts_the_log(given, tmp_path):
    release = render({**ON, "driftReference": given})
    files = release.config_files()
    assert json.loads(files["drift-reference.json"]) == REFERENCE
    config = parse_config(yaml.safe_load(files["tiermesh.yaml"]), tmp_path / "tiermesh.yaml")
    assert config.outcomes.drift_reference == tmp_path / "drift-reference.json"

    def checksum(values):
        template = render(values).workload("outcomes")["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/startup"]

    assert checksum({**ON, "driftReference": given}) != checksum(ON)
    assert checksum({"config": {"outcomes": {"enabled": True, "sample": 0.5}}}) != checksum(ON)
