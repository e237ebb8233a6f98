"""A client of the API server with nothing on top: kept connections and the requests themselves."""

import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

APPLY = "application/apply-patch+yaml"
TIMEOUT_S = 60.0

Manifest = dict[str, Any]


class Bare:
    """Speaks as the user of a kubeconfig file, over one connection; not to be shared by threads."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._address = urlsplit(cluster["server"])
        self._ca = cluster["certificate-authority"]
        self._headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
        self._connection = self._connect()

    def get(self, path: str) -> Manifest:
        return self._ask("GET", path)

    def create(self, path: str, manifest: Manifest) -> Manifest:
        return self._ask("POST", path, manifest)

    def merge(self, path: str, change: Manifest) -> Manifest:
        return self._ask("PATCH", path, change, content="application/merge-patch+json")

    def apply(self, path: str, manifest: Manifest, *, manager: str) -> Manifest:
        """Server-side apply, also over fields of others."""
        query = f"?fieldManager={manager}&force=true"
        return self._ask("PATCH", path + query, manifest, content=APPLY)

    def delete(self, path: str, **options: Any) -> Manifest:
        return self._ask("DELETE", path, options)

    def watch(self, path: str) -> Iterator[Manifest]:
        """Events from now on, over a connection of their own that ends with the generator."""
        separator = "&" if "?" in path else "?"
        connection = self._connect()
        connection.request("GET", f"{path}{separator}watch=1", headers=self._headers)
        answer = _checked(connection.getresponse(), path)
        try:
            while line := answer.readline():
                yield json.loads(line)
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=self._ca)
        host, port = self._address.hostname, self._address.port
        assert host is not None
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)

    def _ask(
        self,
        method: str,
        path: str,
        body: Manifest | None = None,
        *,
        content: str = "application/json",
    ) -> Manifest:
        headers = {**self._headers, "Content-Type": content}
        text = None if body is None else json.dumps(body)
        self._connection.request(method, path, text, headers)
        found: Manifest = json.loads(_checked(self._connection.getresponse(), path).read())
        return found


def _checked(answer: http.client.HTTPResponse, path: str) -> http.client.HTTPResponse:
    if answer.status >= 300:
        raise RuntimeError(f"{path}: {answer.status} {answer.read().decode()}")
    return answer
