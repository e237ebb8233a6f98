import asyncio
import json

import pytest
from aiohttp import ClientTimeout, web
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from diffusion_operator import cluster as module
from diffusion_operator.cluster import Cluster
from diffusion_operator.errors import ApiError, ConflictError, RefusedError

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"namespace": "ns", "name": "flux", "uid": "u"},
}
SILENT = object()


class ScriptedServer:
    """An API server that answers what it is told to, in order."""

    def __init__(self):
        self.requests = []
        self.answers = []

    async def handle(self, request):
        body = await request.json() if request.can_read_body else None
        self.requests.append((request.method, request.path_qs, dict(request.headers), body))
        status, answer = self.answers.pop(0)
        if answer is SILENT:
            await asyncio.sleep(1)
        return web.json_response(answer, status=status)


@pytest.fixture
async def server():
    return ScriptedServer()


@pytest.fixture
async def cluster(server):
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = Configuration()
    configuration.host = "http://{}:{}".format(*runner.addresses[0])
    configuration.api_key["BearerToken"] = "Bearer secret"
    client = ApiClient(configuration)
    yield Cluster(client)
    await client.close()
    await runner.cleanup()


async def test_apply_is_a_forced_server_side_apply_with_the_token(server, cluster):
    server.answers.append((200, SERVICE))
    assert await cluster.apply(SERVICE) == SERVICE
    method, path, headers, body = server.requests[0]
    assert (method, body) == ("PATCH", SERVICE)
    assert path == (
        "/api/v1/namespaces/ns/services/flux?fieldManager=diffusion-operator&force=true"
    )
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Content-Type"] == "application/apply-patch+yaml"


async def test_items_of_a_list_get_the_kind_that_the_server_leaves_out(server, cluster):
    server.answers.append((200, {"items": [{"metadata": {"name": "a"}}]}))
    found = await cluster.list("apps/v1", "StatefulSet", "ns", "x/y=z")
    assert found == [{"metadata": {"name": "a"}, "apiVersion": "apps/v1", "kind": "StatefulSet"}]
    assert server.requests[0][1] == (
        "/apis/apps/v1/namespaces/ns/statefulsets?labelSelector=x/y%3Dz"
    )


async def test_what_is_gone_is_none_and_deleting_it_again_is_fine(server, cluster):
    server.answers += [(404, {}), (404, {}), (409, {})]
    assert await cluster.get("v1", "Service", "ns", "flux") is None
    await cluster.delete(SERVICE)
    await cluster.delete(SERVICE)


async def test_what_has_no_namespace_is_got_and_applied_without_one(server, cluster):
    kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    crd = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "a.b"}}
    server.answers += [(200, crd), (200, crd)]
    assert await cluster.get(*kind, None, "a.b") == crd
    await cluster.apply(crd)
    paths = [path.partition("?")[0] for _, path, _, _ in server.requests]
    assert paths == ["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a.b"] * 2


async def test_only_the_very_object_is_deleted(server, cluster):
    server.answers.append((200, {}))
    await cluster.delete(SERVICE)
    assert server.requests[0][3] == {"preconditions": {"uid": "u"}}


async def test_the_status_of_something_gone_is_nobodys(server, cluster):
    server.answers.append((404, {}))
    await cluster.apply_status(SERVICE)
    assert "/services/flux/status?" in server.requests[0][1]


async def test_an_event_posted_before_is_the_same_event(server, cluster):
    event = SERVICE | {"apiVersion": "events.k8s.io/v1", "kind": "Event"}
    server.answers.append((409, {}))
    await cluster.create(event)
    assert server.requests[0][:2] == ("POST", "/apis/events.k8s.io/v1/namespaces/ns/events")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "bad request"),
        (403, "forbidden"),
        (422, "invalid"),
        (500, "failed to create typed patch object: .spec.x: field not declared in schema"),
    ],
)
async def test_a_manifest_that_will_never_be_taken_is_refused_in_the_servers_words(
    server, cluster, status, message
):
    server.answers.append((status, {"message": message}))
    with pytest.raises(RefusedError, match=f"^{message}$"):
        await cluster.apply(SERVICE)


@pytest.mark.parametrize("status", [401, 429, 500, 503])
async def test_what_may_pass_is_an_error_with_its_status(server, cluster, status):
    server.answers.append((status, {"message": "later"}))
    with pytest.raises(ApiError, match="later") as caught:
        await cluster.apply(SERVICE)
    assert caught.value.status == status


async def test_an_answer_without_words_is_told_by_its_status(server, cluster):
    server.answers.append((409, []))
    with pytest.raises(ConflictError, match="409 Conflict"):
        await cluster.apply(SERVICE)


async def test_a_silent_server_is_an_error_without_a_status(server, cluster, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT", ClientTimeout(total=0.05))
    server.answers.append((200, SILENT))
    with pytest.raises(ApiError, match="GET /api/v1/namespaces/ns/services/flux") as caught:
        await cluster.get("v1", "Service", "ns", "flux")
    assert caught.value.status == 0


async def test_the_api_server_is_asked_directly_whatever_proxy_the_environment_names(
    server, cluster, monkeypatch, tmp_path
):
    """As Kopf does: else its watches would go one way and our requests another."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": cluster._client.configuration.host}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    server.answers = [(200, SERVICE)]
    client = await module.connect()
    assert await Cluster(client).get("v1", "Service", "ns", "flux") == SERVICE
    await client.close()
