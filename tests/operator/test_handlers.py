import kopf
import pytest

from diffusion_operator import handlers


class Task:
    def __init__(self, *, ended):
        self._ended = ended

    def done(self):
        return self._ended

    def get_name(self):
        return "reconcile workers"


class Queue:
    def __init__(self, lag_s=0.0):
        self.added = []
        self._lag_s = lag_s

    def add(self, key):
        self.added.append(key)

    def lag_s(self):
        return self._lag_s


def memo(*, ended=False, lag_s=0.0):
    return kopf.Memo(tasks=[Task(ended=ended)], queue=Queue(lag_s), stuck_after_s=180.0)


async def test_a_live_operator_says_so():
    assert await handlers.check_workers(memo=memo(lag_s=10)) == "running"


@pytest.mark.parametrize("dead", [memo(ended=True), memo(lag_s=181)])
async def test_the_liveness_probe_fails_when_no_pass_is_made(dead):
    with pytest.raises(kopf.PermanentError):
        await handlers.check_workers(memo=dead)


async def test_a_stage_and_all_that_has_its_label_wake_the_same_key():
    found = memo()
    await handlers.wake_stage(namespace="ns", name="flux", memo=found)
    labels = {"diffusionstage.io/stage": "flux"}
    await handlers.wake_owner(namespace="ns", labels=labels, memo=found)
    assert found.queue.added == [("ns", "flux"), ("ns", "flux")]


def test_every_watched_kind_is_selected_by_our_label_on_the_server():
    settings = kopf.OperatorSettings()
    handlers.configure(settings)
    selected = {(one.group, one.any_name) for one in settings.watching.label_selectors}
    assert selected == {
        ("apps", "statefulsets"),
        ("networking.k8s.io", "networkpolicies"),
        ("policy", "poddisruptionbudgets"),
        ("", "configmaps"),
        ("", "pods"),
        ("", "serviceaccounts"),
        ("", "services"),
    }
    assert set(settings.watching.label_selectors.values()) == {"diffusionstage.io/stage"}


def test_no_handler_asks_for_a_finalizer():
    registry = kopf.get_default_registry()
    assert not [one for one in registry._changing.get_all_handlers() if one]
    assert not [one for one in registry._spawning.get_all_handlers() if one]


def test_an_api_server_that_fails_for_minutes_is_outlived_and_found_back_soon():
    settings = kopf.OperatorSettings()
    handlers.configure(settings)
    assert sum(settings.networking.error_backoffs) >= 600
    assert max(settings.networking.error_backoffs) <= 5


def test_no_copy_of_an_object_is_made_to_find_differences_that_nobody_asks_for():
    settings = kopf.OperatorSettings()
    handlers.configure(settings)
    body = kopf.Body({"metadata": {"labels": {"a": "b"}}, "spec": {"large": "object"}})
    storage = settings.persistence.diffbase_storage
    assert storage.build(body=body, extra_fields=None) == {}
    assert storage.fetch(body=body) is None
