from diffusion_operator.desired import desired_state
from diffusion_operator.desired.curve import config_map, published, secret, secret_name
from tests.operator.builders import make_stage

NOW, NEXT, BEFORE = "n" * 40, "x" * 40, "b" * 40
CLIENTS = [{"name": "web", "publicKey": "w" * 40}, {"name": "cli", "publicKey": "c" * 40}]


def make(generation=2, clients=CLIENTS):
    return make_stage(curve={"clients": clients, "keyGeneration": generation})


def data(stage, keys):
    return config_map(stage, stage.spec.curve, keys)["data"]


def pod(stage, keys):
    return desired_state(stage, keys)[-1]["spec"]["template"]


def test_clients_learn_the_key_in_use_the_next_one_and_the_one_that_goes():
    found = data(make(), {1: BEFORE, 2: NOW, 3: NEXT})
    assert found["servers"] == f"{NOW}\n{NEXT}\n{BEFORE}\n"


def test_the_stage_reads_who_may_connect():
    assert data(make(), {2: NOW, 3: NEXT})["clients"] == f"web {'w' * 40}\ncli {'c' * 40}\n"


def test_what_was_published_is_read_again():
    stage, keys = make(), {1: BEFORE, 2: NOW, 3: NEXT}
    assert published(config_map(stage, stage.spec.curve, keys)) == keys
    assert published({}) == {}


def test_a_pod_mounts_the_secret_of_the_key_in_use_and_no_other():
    template = pod(make(), {1: BEFORE, 2: NOW, 3: NEXT})
    [mounted] = [one["secret"] for one in template["spec"]["volumes"] if "secret" in one]
    assert mounted["secretName"] == secret_name(make(), NOW)
    args = template["spec"]["containers"][0]["args"]
    assert "--curve-secret-key-file=/etc/diffusion-stage/curve-key/secret-key" in args
    assert "--curve-clients-file=/etc/diffusion-stage/curve/clients" in args


def test_another_client_changes_no_pod_and_another_key_does():
    keys = {2: NOW, 3: NEXT, 4: BEFORE}
    assert pod(make(), keys) == pod(make(clients=CLIENTS[:1]), keys)
    assert pod(make(), keys) != pod(make(3), keys)


def test_a_secret_holds_its_pair_and_never_changes():
    found = secret(make(), NOW, "s" * 40)
    assert found["stringData"] == {"secret-key": "s" * 40, "public-key": NOW}
    assert found["immutable"] is True
    assert found["metadata"]["name"] == secret_name(make(), NOW) != secret_name(make(), NEXT)


def test_without_curve_there_is_nothing_of_it():
    kinds = [one["kind"] for one in desired_state(make_stage(), {})]
    assert "ConfigMap" not in kinds
