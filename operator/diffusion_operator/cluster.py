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
    ("networking.k8s.io/v1", "NetworkPolicy"): "networkpolicies",
    ("v1", "ConfigMap"): "configmaps",
    ("v1", "Node"): "nodes",
    ("v1", "PersistentVolumeClaim"): "persistentvolumeclaims",
    ("v1", "Secret"): "secrets",
    ("v1", "ServiceAccount"): "serviceaccounts",
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): "customresourcedefinitions",
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

    All raise `ApiError`; the caller owns and closes the client. The namespace None is that of
    objects that have none.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def get(
        self, api_version: str, kind: str, namespace: str | None, name: str
    ) -> Manifest | None:
        """The object, or None where there is none of that name; without namespace, a cluster's."""
        try:
            return await self._call("GET", _path(api_version, kind, namespace, name))
        except AbsentError:
            return None

    async def list(
        self, api_version: str, kind: str, namespace: str | None, selector: str
    ) -> list[Manifest]:
        """The objects that a label selector finds, each with its kind, which the answer omits."""
        path = _path(api_version, kind, namespace)
        found = await self._call("GET", path, query={"labelSelector": selector})
        return [item | {"apiVersion": api_version, "kind": kind} for item in found["items"]]

    async def apply(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Server-side apply, also over fields of others; `RefusedError` where that is in vain.

        With `dry_run` nothing is changed, and the answer is what would come of it.
        """
        try:
            return await self._apply(manifest, _path_of(manifest), dry_run=dry_run)
        except ApiError as error:
            raise _refusal(error) from error

    async def apply_status(self, manifest: Manifest) -> None:
        """Replace our part of the status; nothing happens where the object is gone."""
        with contextlib.suppress(AbsentError):
            await self._apply(manifest, f"{_path_of(manifest)}/status")

    async def create(self, manifest: Manifest) -> None:
        """For what may be made and never read; one of that name is the same, made before.

        `RefusedError` as with `apply`.
        """
        metadata = manifest["metadata"]
        path = _path(manifest["apiVersion"], manifest["kind"], metadata["namespace"])
        try:
            await self._call("POST", path, body=manifest)
        except ConflictError:
            return
        except ApiError as error:
            raise _refusal(error) from error

    async def delete(self, manifest: Manifest, *, grace_s: int | None = None) -> None:
        """Delete this very object, if its uid is known; one that took its name is left alone.

        With `grace_s` 0 the object goes at once, whatever becomes of what it stands for.
        """
        uid = manifest["metadata"].get("uid")
        options = {} if uid is None else {"preconditions": {"uid": uid}}
        grace = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        with contextlib.suppress(AbsentError, ConflictError):
            await self._call("DELETE", _path_of(manifest), body=options | grace)

    async def _apply(self, manifest: Manifest, path: str, *, dry_run: bool = False) -> Manifest:
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        if dry_run:
            query["dryRun"] = "All"
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
    namespace = metadata.get("namespace")
    return _path(manifest["apiVersion"], manifest["kind"], namespace, metadata["name"])


def _path(api_version: str, kind: str, namespace: str | None, name: str | None = None) -> str:
    root = "apis" if "/" in api_version else "api"
    within = "" if namespace is None else f"namespaces/{quote(namespace)}/"
    path = f"/{root}/{api_version}/{within}{PLURALS[api_version, kind]}"
    return path if name is None else f"{path}/{quote(name)}"


def _refusal(error: ApiError) -> ApiError | RefusedError:
    """The same error, as one that no repetition helps if it is such."""
    is_final = error.status in REFUSALS or UNKNOWN_FIELD in str(error)
    return RefusedError(str(error)) if is_final else error


def _api_error(error: ApiException) -> ApiError:
    """With the server's words: the exception's own text has headers that differ each time."""
    try:
        message = str(json.loads(error.body or "")["message"])
    except (ValueError, KeyError, TypeError):
        message = f"{error.status} {error.reason}"
    kind = {404: AbsentError, 409: ConflictError}.get(error.status, ApiError)
    return kind(message, status=error.status)
