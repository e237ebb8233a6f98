import pytest

from diffusion_operator.desired.merge import merge
from diffusion_operator.errors import TemplateError


def merged(base, over, path="podTemplate"):
    return merge(base, over, path)


def test_maps_merge_by_key_and_the_upper_layer_wins():
    assert merged({"a": {"x": 1, "y": 1}}, {"a": {"y": 2}, "b": 3}) == {
        "a": {"x": 1, "y": 2},
        "b": 3,
    }


def test_null_removes_what_is_below():
    assert merged({"securityContext": {"runAsUser": 1}}, {"securityContext": None}) == {}


@pytest.mark.parametrize("key", ["spec", "metadata", "containers"])
def test_an_empty_key_does_not_remove_what_makes_a_pod(key):
    with pytest.raises(TemplateError, match=rf"podTemplate\.{key}: "):
        merged({key: {}}, {key: None})


def test_containers_merge_by_name_and_ours_stays_first():
    base = {"containers": [{"name": "stage", "image": "x", "tty": True}]}
    over = {"containers": [{"name": "log"}, {"name": "stage", "image": "y"}]}
    assert merged(base, over)["containers"] == [
        {"name": "stage", "image": "y", "tty": True},
        {"name": "log"},
    ]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("env", "name"),
        ("volumes", "name"),
        ("volumeMounts", "mountPath"),
        ("ports", "containerPort"),
    ],
)
def test_in_other_named_lists_an_item_replaces_its_namesake(name, key):
    base = {name: [{key: "a", "below": 1}, {key: "b"}]}
    over = {name: [{key: "c"}, {key: "a", "above": 1}]}
    assert merged(base, over)[name] == [{key: "a", "above": 1}, {key: "b"}, {key: "c"}]


def test_any_other_list_is_replaced():
    assert merged({"tolerations": [{"key": "a"}]}, {"tolerations": []}) == {"tolerations": []}


@pytest.mark.parametrize(
    ("base", "over", "path"),
    [
        ({"spec": {"containers": []}}, {"spec": {"containers": "x"}}, "spec.containers"),
        ({"spec": {"ports": "x"}}, {"spec": {"ports": []}}, "spec.ports"),
        ({"spec": {}}, {"spec": []}, "spec"),
        ({"a": 1}, {"a": {"b": 1}}, "a"),
        ({"containers": []}, {"containers": [{"nam": "x"}]}, r"containers\[0\]"),
        ({"containers": []}, {"containers": [None]}, r"containers\[0\]"),
        ({"env": []}, {"env": [{"name": "A"}, {"name": "A"}]}, r"env\[1\]"),
    ],
)
def test_shapes_that_do_not_fit_are_named(base, over, path):
    with pytest.raises(TemplateError, match=f"^podTemplate.{path}: "):
        merged(base, over)


def test_neither_layer_is_changed():
    base, over = {"env": [{"name": "A"}]}, {"env": [{"name": "B"}], "x": {"y": 1}}
    merged(base, over)
    assert (base, over) == ({"env": [{"name": "A"}]}, {"env": [{"name": "B"}], "x": {"y": 1}})


def test_of_placement_wishes_none_undoes_another():
    name = "preferredDuringSchedulingIgnoredDuringExecution"
    ours, theirs = {name: [{"weight": 1}]}, {name: [{"weight": 2}]}
    assert merge(ours, theirs, "t") == {name: [{"weight": 1}, {"weight": 2}]}
