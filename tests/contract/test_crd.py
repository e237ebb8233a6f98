"""The CRD and `diffusion_operator.api` accept the same specs."""

from datetime import datetime
from pathlib import Path

import pytest
import yaml

from diffusion_operator.api import CONTAINER, GROUP, KIND, PLURAL, VERSION, Spec
from diffusion_operator.status import Pass, compute_status, unreadable
from tests.operator.builders import NOW, WORKER_DIED, ended, make_pod, make_stage, observed

ROOT = Path(__file__).parents[2]
FILE = ROOT / "crds" / "diffusionstages.yaml"
LAST_APPLIED_LIMIT = 262_144  # bytes of annotations, where `kubectl apply` keeps the whole object
BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "maxItems", "pattern", "enum")
MINIMAL = {"image": "i", "model": {"uri": "/m"}}


def crd():
    return yaml.safe_load(FILE.read_text())


def schema(part):
    return crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part]


def flatten(node, definitions=None, path="spec"):
    """Each field's path with its type and bounds; CRD and pydantic schemas come out alike."""
    node = dereferenced(node, definitions or {})
    kind = "int-or-string" if is_int_or_string(node) else node.get("type")
    found = {path: {"type": kind} | {name: node[name] for name in BOUNDS if name in node}}
    if "properties" in node:
        found[path]["required"] = sorted(node.get("required", []))
    for name, child in node.get("properties", {}).items():
        found |= flatten(child, definitions, f"{path}.{name}")
    if kind == "array":
        found |= flatten(node["items"], definitions, f"{path}[]")
    return found


def dereferenced(node, definitions):
    """pydantic's references, optional fields and unions, written as the CRD writes them."""
    if "$ref" in node:
        return definitions[node["$ref"].rpartition("/")[2]]
    choices = [one for one in node.get("anyOf", []) if one != {"type": "null"}]
    if len(choices) == 1:
        return dereferenced(choices[0], definitions)
    if choices:
        merged = {name: value for choice in choices for name, value in choice.items()}
        return merged | {"type": sorted(choice["type"] for choice in choices)}
    return node


def is_int_or_string(node):
    return "x-kubernetes-int-or-string" in node or node.get("type") == ["integer", "string"]


def defaulted(value, node):
    """`value` as the API server stores it."""
    for name, child in node.get("properties", {}).items():
        if name not in value and "default" in child:
            value = value | {name: child["default"]}
        if isinstance(value.get(name), dict):
            value = value | {name: defaulted(value[name], child)}
    return value


def test_both_know_the_same_fields_with_the_same_types_and_bounds():
    generated = Spec.model_json_schema(by_alias=True)
    assert flatten(schema("spec")) == flatten(generated, generated["$defs"])


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"parallelism": {}},
        {"engine": {}},
        {"model": {"uri": "/m", "cache": {"persistentVolumeClaim": {"claimName": "c"}}}},
        {"model": {"uri": "/m", "cache": {"volumeClaimTemplate": {"size": "1Gi"}}}},
        {"model": {"uri": "/m", "cache": {"image": {"reference": "r"}}}},
    ],
)
def test_both_have_the_same_defaults(given):
    stored = defaulted(MINIMAL | given, schema("spec"))
    assert Spec.model_validate(stored) == Spec.model_validate(MINIMAL | given)


def test_the_names_are_the_same():
    spec = crd()["spec"]
    assert (spec["group"], spec["names"]["kind"], spec["names"]["plural"]) == (GROUP, KIND, PLURAL)
    assert [version["name"] for version in spec["versions"]] == [VERSION]
    assert f'"{CONTAINER}"' in schema("spec")["properties"]["podTemplate"]["description"]


def test_every_status_that_is_written_is_in_the_schema():
    pods = [make_pod(0, ready=True), make_pod(1, state=ended(71, message=WORKER_DIED))]
    found = Pass(observed(*pods), obstacle=None, warning=None, old={}, now=NOW)
    policy = {"onBudgetExhausted": "Hold", "restartBudget": 1}
    held = compute_status(make_stage(replicas=1, failurePolicy=policy), held_pass())
    assert "hold" in held
    for status in (
        held,
        compute_status(make_stage(replicas=2), found),
        unreadable(1, "m", old={}, now=NOW),
    ):
        assert unknown(status, schema("status")) == []


def held_pass():
    """The only replica has used up its budget, once more after an earlier hold."""
    dead = make_pod(0, state=ended(71, message=WORKER_DIED))
    old = {"hold": {"generation": 1, "since": "2026-01-01T10:00:00Z"}, "restarts": {"recent": []}}
    now = datetime.fromisoformat(
        dead["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    )
    return Pass(observed(dead), obstacle=None, warning=None, old=old, now=now)


def unknown(value, node, path="status"):
    if isinstance(value, list):
        return [lost for one in value for lost in unknown(one, node["items"], f"{path}[]")]
    if not isinstance(value, dict):
        return []
    known = node["properties"]
    lost = [f"{path}.{name}" for name in value if name not in known]
    return lost + [
        one
        for name in value
        if name in known
        for one in unknown(value[name], known[name], f"{path}.{name}")
    ]


@pytest.mark.parametrize("part", ["spec", "status"])
def test_every_field_tells_what_it_is(part):
    """`kubectl explain` shows nothing else."""
    assert list(silent(schema(part), part)) == []


def silent(node, path):
    if not node.get("description", "").strip() and not path.endswith("[]"):
        yield path
    for name, child in node.get("properties", {}).items():
        yield from silent(child, f"{path}.{name}")
    if "properties" in node.get("items", {}):
        yield from silent(node["items"], f"{path}[]")


def test_the_chart_has_this_very_file():
    assert FILE.resolve() == ROOT / "charts/diffusion-operator/crds/diffusionstages.yaml"


def test_kubectl_apply_can_remember_the_whole_crd():
    assert len(yaml.safe_dump(crd())) < LAST_APPLIED_LIMIT / 2
