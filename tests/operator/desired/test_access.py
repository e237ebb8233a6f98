from diffusion_operator.desired import desired_state
from tests.operator.builders import make_stage


def of_kind(kind, **spec):
    return next((one for one in desired_state(make_stage(**spec), {}) if one["kind"] == kind), None)


def ingress(**policy):
    return of_kind("NetworkPolicy", networkPolicy={"enabled": True, **policy})["spec"]["ingress"]


def test_neither_is_there_unless_asked_for():
    assert of_kind("NetworkPolicy") is None
    assert of_kind("ServiceAccount") is None


def test_labelled_pods_of_the_namespace_may_send_requests_and_nobody_reads_metrics():
    [rule] = ingress()
    assert rule == {
        "from": [{"podSelector": {"matchLabels": {"diffusionstage.io/client": "true"}}}],
        "ports": [{"protocol": "TCP", "port": 5555}],
    }


def test_the_users_peers_are_taken_as_they_are():
    clients, scrapers = [{"ipBlock": {"cidr": "10.0.0.0/8"}}], [{"podSelector": {}}]
    requests, metrics = ingress(clients=clients, scrapers=scrapers)
    assert (requests["from"], metrics["from"]) == (clients, scrapers)
    assert metrics["ports"] == [{"protocol": "TCP", "port": 8080}]


def test_pods_run_as_the_account_that_was_asked_for():
    wanted = {"create": True, "annotations": {"cloud/role": "reader"}}
    account = of_kind("ServiceAccount", serviceAccount=wanted)
    assert account["metadata"]["annotations"] == {"cloud/role": "reader"}
    pod = of_kind("StatefulSet", serviceAccount=wanted)["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("flux", False)


def test_an_account_named_in_the_pod_template_wins():
    template = {"spec": {"serviceAccountName": "mine"}}
    workload = of_kind("StatefulSet", serviceAccount={"create": True}, podTemplate=template)
    assert workload["spec"]["template"]["spec"]["serviceAccountName"] == "mine"
