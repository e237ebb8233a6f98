"""What the accounts of the chart may do, asked of a real API server."""

import re

import pytest
import yaml

from testcluster import CommandError
from tests.cluster.operator.conftest import CHART

pytestmark = pytest.mark.cluster
KUBE = ("--kube-version", "1.34.4")
HOME, OTHER, WATCHED = "rights-home", "rights-other", ("rights-a", "rights-b")
ROW = re.compile(r"^(\S+) +\[(.*?)\] +\[(.*?)\] +\[(.*?)\]$")
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "others.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"kind": "Other", "plural": "others"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


@pytest.fixture(scope="module", autouse=True)
def namespaces(cluster):
    names = (HOME, OTHER, *WATCHED)
    for name in names:
        cluster.kubectl("create", "namespace", name)
    yield
    cluster.kubectl("delete", "namespace", *names, "--wait=false")


def impersonated(account):
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{HOME}", "system:authenticated")
    return [
        f"--as=system:serviceaccount:{HOME}:{account}",
        *(f"--as-group={group}" for group in groups),
    ]


def rights_of(cluster, account, namespace):
    """The verbs by resource and, where there are any, names."""
    options = ("auth", "can-i", "--list", "--no-headers", "-n", namespace)
    rows = map(ROW.match, cluster.kubectl(*options, *impersonated(account)).splitlines())
    return {
        (row[1], row[3]): frozenset(row[4].split())
        for row in filter(None, rows)
        if row[1] != "[]" and not row[2]
    }


def beyond_everyones(cluster, account, namespace):
    common = rights_of(cluster, "nobody", namespace).items()
    return dict(rights_of(cluster, account, namespace).items() - common)


def written(*sections):
    """What rights.txt says of these."""
    lines = (CHART / "rights.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {(row[1], ""): frozenset(row[2:]) for row in rows if row[0] in sections}


@pytest.fixture
def install(cluster):
    """Makes the chart's roles; they are gone after the test."""
    made = []

    def apply(release, *values, keep=lambda one: True):
        where = ("--namespace", HOME, *KUBE)
        options = [word for value in values for word in ("--set", value)]
        out = cluster.helm("template", release, CHART, *where, *options)
        documents = [one for one in yaml.safe_load_all(out) if one and keep(one)]
        roles = yaml.safe_dump_all([one for one in documents if "Role" in one["kind"]])
        cluster.kubectl("apply", "-f", "-", stdin=roles)
        made.append(roles)

    yield apply
    for roles in made:
        cluster.kubectl("delete", "-f", "-", "--ignore-not-found", stdin=roles)


def is_no_hook(one):
    return "helm.sh/hook" not in one["metadata"].get("annotations", {})


def test_for_the_whole_cluster_the_operator_has_the_rights_that_are_written_down(cluster, install):
    install("rights-diffusion-operator", keep=is_no_hook)
    expected = written("stages", "cluster")
    for namespace in (HOME, OTHER):
        assert beyond_everyones(cluster, "rights-diffusion-operator", namespace) == expected


def test_for_some_namespaces_it_has_those_there_and_none_elsewhere(cluster, install):
    chosen = ("rbac.scope=namespaced", f"watchNamespaces={{{','.join(WATCHED)}}}")
    install("rights-diffusion-operator", *chosen, keep=is_no_hook)
    for namespace in WATCHED:
        assert beyond_everyones(cluster, "rights-diffusion-operator", namespace) == written(
            "stages"
        )
    for namespace in (HOME, OTHER):
        assert beyond_everyones(cluster, "rights-diffusion-operator", namespace) == {}


def test_without_named_namespaces_it_is_the_releases_own(cluster, install):
    install("rights-diffusion-operator", "rbac.scope=namespaced", keep=is_no_hook)
    assert beyond_everyones(cluster, "rights-diffusion-operator", HOME) == written("stages")
    assert beyond_everyones(cluster, "rights-diffusion-operator", OTHER) == {}


def test_rights_on_nodes_come_only_when_they_are_asked_for(cluster, install):
    install("rights-diffusion-operator", "nodes.manage=true", keep=is_no_hook)
    found = beyond_everyones(cluster, "rights-diffusion-operator", OTHER)
    assert found == written("stages", "cluster", "nodes")


def test_with_roles_made_by_somebody_else_the_chart_makes_none(cluster):
    where = ("--namespace", HOME, "--skip-tests", *KUBE)
    out = cluster.helm("template", "r", CHART, *where, "--set", "rbac.create=false")
    assert {one["kind"] for one in yaml.safe_load_all(out)} == {"ServiceAccount", "Deployment"}


def test_the_hook_may_apply_the_crd_of_stages_and_no_other(cluster, install):
    install("rights-diffusion-operator")
    account = "rights-diffusion-operator-crd"
    crds = "customresourcedefinitions.apiextensions.k8s.io"
    assert beyond_everyones(cluster, account, HOME) == {
        (crds, "diffusionstages.diffusionstage.io"): {"get", "create", "patch"}
    }
    apply = ("apply", "--server-side", "-f", "-", *impersonated(account))
    with pytest.raises(CommandError, match=r'"others\.example\.org" is forbidden'):
        cluster.kubectl(*apply, stdin=yaml.safe_dump(CRD))


def test_the_account_of_helm_test_may_make_stages_in_its_namespace_alone(cluster, install):
    install("rights-diffusion-operator")
    account = "rights-diffusion-operator-test"
    stages = ("diffusionstages.diffusionstage.io", "")
    expected = {stages: {"get", "create", "patch", "delete"}}
    assert beyond_everyones(cluster, account, HOME) == expected
    assert beyond_everyones(cluster, account, OTHER) == {}


def test_whoever_may_edit_a_namespace_may_edit_its_stages(cluster, install):
    install("rights-diffusion-operator")
    may = {}
    for role in ("admin", "edit", "view"):
        cluster.kubectl("create", "sa", role, "-n", HOME)
        subject = f"--serviceaccount={HOME}:{role}"
        cluster.kubectl("create", "rolebinding", role, f"--clusterrole={role}", subject, "-n", HOME)
        found = rights_of(cluster, role, HOME)
        may[role] = found.get(("diffusionstages.diffusionstage.io", ""), frozenset())
    reading = {"get", "list", "watch"}
    writing = reading | {"create", "update", "patch", "delete"}
    assert may == {"admin": writing, "edit": writing, "view": reading}
