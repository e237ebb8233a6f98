"""CURVE keys as objects, with rights that cannot read a Secret."""

import pytest

from tests.cluster.operator.stages import until

pytestmark = pytest.mark.cluster
CLIENTS = [{"name": "web", "publicKey": "w" * 40}]


def public(installed, name):
    return installed.get("configmap", f"{name}-curve")["data"]


def secrets(installed, name):
    listed = installed.kubectl(
        "get", "secrets", "-l", f"diffusionstage.io/stage={name}", "-o", "name"
    )
    return set(listed.split())


def test_keys_are_made_once_mounted_and_rotated_to_the_one_that_clients_know(
    operator, stages, installed
):
    stages.make("keyed", replicas=2, curve={"clients": CLIENTS})
    before, made = public(installed, "keyed"), secrets(installed, "keyed")
    assert before["servers"].split() == [before["key-1"], before["key-2"]]
    assert before["clients"] == f"web {'w' * 40}\n"
    assert len(made) == 2
    pods = stages.pods("keyed")
    operator.restart()
    stages.change("keyed", curve={"clients": [*CLIENTS, {"name": "cli", "publicKey": "c" * 40}]})
    until(lambda: "cli" in public(installed, "keyed")["clients"])
    assert stages.pods("keyed") == pods, "another client restarts nobody"
    assert secrets(installed, "keyed") == made
    stages.change("keyed", curve={"clients": CLIENTS, "keyGeneration": 2})
    until(lambda: "key-1" not in public(installed, "keyed"), within_s=90)
    after = public(installed, "keyed")
    assert after["servers"].split() == [before["key-2"], after["key-3"]]
    assert len(secrets(installed, "keyed")) == 2
    assert not {uid for uid, _ in pods.values()} & {uid for uid, _ in stages.pods("keyed").values()}
    stages.wait("keyed")
    stages.change("keyed", curve=None)
    until(lambda: not secrets(installed, "keyed"), within_s=90)


def test_a_generation_cannot_be_skipped(stages, installed, operator):
    stages.make("skipping", replicas=0, curve={"clients": CLIENTS})
    patch = '{"spec": {"curve": {"keyGeneration": 3}}}'
    asked = installed.run(
        "kubectl", "patch", "dstage", "skipping", "--type=merge", "-p", patch, check=False
    )
    assert "rises by one at a time" in asked.stderr
