"""The calls that the operator makes to Kubernetes, on plain manifests.

The only module that knows the official client, and of that only the transport (`ApiClient`: TLS,
credentials and their renewal, typed errors). Its models and its `DynamicClient` are left aside:
they turn every answer into objects and back, and discovery keeps state in the temporary folder.
"""

import contextlib
import json
from collections.abc import Mapping
from urllib.parse import quote

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.exceptions import ApiException

from diffusion_operator.api import API_VERSION, KIND, PLURAL
from diffusion_operator.errors import AbsentError, ApiError, ConflictError, RefusedError
from diffusion_operator.manifest import Manifest

FIELD_MANAGER = "diffusion-operator"
TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)
CONNECTIONS = 8
APPLY = "application/apply-patch+yaml"  # JSON is YAML
REFUSALS = (400, 403, 422)
UNKNOWN_FIELD = "failed to create typed patch object"  # of server-side apply; comes as a 500
PLURALS = {
    (API_VERSION, KIND): PLURAL,
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("events.k8s.io/v1", "Event"): "events",
    ("policy/v1", "PodDisruptionBudget"): "poddisruptionbudgets",
    ("v1", "Pod"): "pods",
    ("v1", "Service"): "services",
}


async def connect() -> ApiClient:
    """A client with the pod's credentials, else with those of the kubeconfig, as Kopf's login.

    As Kopf's it goes to the API server directly, whatever proxy the environment names: to look for
    one, and for a netrc, aiohttp would start two jobs in threads for every request.
    """
    configuration = Configuration()
    configuration.connection_pool_maxsize = CONNECTIONS
    configuration.client_session_kwargs = {"trust_env": False}
    try:
        config.load_incluster_config(configuration)
    except config.ConfigException:
        await config.load_kube_config(client_configuration=configuration)
    return ApiClient(configuration)


class Cluster:
    """Live reads and server-side apply; each method is one request.

    All raise `ApiError`; the caller owns and closes the client.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def get(self, api_version: str, kind: str, namespace: str, name: str) -> Manifest | None:
        """The object, or None where there is none of that name."""
        try:
            return await self._call("GET", _path(api_version, kind, namespace, name))
        except AbsentError:
            return None

    async def list(
        self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str]
    ) -> list[Manifest]:
        """The objects with all of the labels, each with its kind, which the answer leaves out."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        path = _path(api_version, kind, namespace)
        found = await self._call("GET", path, query={"labelSelector": selector})
        return [item | {"apiVersion": api_version, "kind": kind} for item in found["items"]]

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply, also over fields of others; `RefusedError` where that is in vain."""
        try:
            return await self._apply(manifest, _path_of(manifest))
        except ApiError as error:
            if error.status in REFUSALS or UNKNOWN_FIELD in str(error):
                raise RefusedError(str(error)) from error
            raise

    async def apply_status(self, manifest: Manifest) -> None:
        """Replace our part of the status; nothing happens where the object is gone."""
        with contextlib.suppress(AbsentError):
            await self._apply(manifest, f"{_path_of(manifest)}/status")

    async def delete(self, manifest: Manifest) -> None:
        """Delete this very object; one that took its name since is left alone."""
        only_this = {"preconditions": {"uid": manifest["metadata"]["uid"]}}
        with contextlib.suppress(AbsentError, ConflictError):
            await self._call("DELETE", _path_of(manifest), body=only_this)

    async def emit(self, event: Manifest) -> None:
        """Post an Event; one of that name is the same Event, posted before."""
        metadata = event["metadata"]
        path = _path(event["apiVersion"], event["kind"], metadata["namespace"])
        with contextlib.suppress(ConflictError):
            await self._call("POST", path, body=event)

    async def _apply(self, manifest: Manifest, path: str) -> Manifest:
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self._call("PATCH", path, query=query, body=manifest, content_type=APPLY)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        content_type: str = "application/json",
    ) -> Manifest:
        request = await self._client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", "Content-Type": content_type},
            body=body,
            auth_settings=["BearerToken"],  # without it the request is anonymous
        )
        try:
            response = await self._client.call_api(*request, _request_timeout=TIMEOUT)
            raw = await response.read()
            self._client.response_deserialize(response, {})  # raises unless the status is 2xx
        except ApiException as error:
            raise _api_error(error) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiError(
                f"{method} {path}: {str(error) or type(error).__name__}", status=0
            ) from error
        answer: Manifest = json.loads(raw)
        return answer


def _path_of(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    return _path(manifest["apiVersion"], manifest["kind"], metadata["namespace"], metadata["name"])


def _path(api_version: str, kind: str, namespace: str, name: str | None = None) -> str:
    root = "apis" if "/" in api_version else "api"
    path = f"/{root}/{api_version}/namespaces/{quote(namespace)}/{PLURALS[api_version, kind]}"
    return path if name is None else f"{path}/{quote(name)}"


def _api_error(error: ApiException) -> ApiError:
    """With the server's words: the exception's own text has headers that differ each time."""
    try:
        message = str(json.loads(error.body or "")["message"])
    except (ValueError, KeyError, TypeError):
        message = f"{error.status} {error.reason}"
    kind = {404: AbsentError, 409: ConflictError}.get(error.status, ApiError)
    return kind(message, status=error.status)
