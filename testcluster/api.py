"""A few requests to the API server, without the price of a kubectl process each."""

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from testcluster.credentials import SERVER, token_of

TIMEOUT_S = 5.0


class Api:
    """Speaks as the user of a kubeconfig file. Works only inside the cluster's namespaces."""

    def __init__(self, kubeconfig: Path, ca: Path) -> None:
        self._headers = {"Authorization": f"Bearer {token_of(kubeconfig)}"}
        self._ca = ca

    def is_ready(self) -> bool:
        """Whether the API server serves with all its own objects made."""
        try:
            return self._request("GET", "/readyz") == b"ok"
        except OSError:  # not there yet, or its certificate is not
            return False

    def get(self, path: str) -> dict[str, Any] | None:
        """The object at `path`; None where there is none."""
        try:
            found: dict[str, Any] = json.loads(self._request("GET", path))
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return None
        return found

    def merge(self, path: str, change: dict[str, Any]) -> None:
        """Apply a JSON merge patch (RFC 7386)."""
        self._request("PATCH", path, json.dumps(change).encode())

    def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        headers = {**self._headers, "Content-Type": "application/merge-patch+json"}
        request = urllib.request.Request(SERVER + path, body, headers, method=method)
        context = ssl.create_default_context(cafile=self._ca)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as answer:
            return bytes(answer.read())
