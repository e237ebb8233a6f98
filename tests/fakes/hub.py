"""A model hub on loopback: what diffusers asks of one, and failures that a test names."""

import hashlib
import json
import re
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "c0ffee" + 34 * "0"
TOKEN = "hf_goodtoken"
INVALID = "Invalid credentials in Authorization header"
_API = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)(/(?P<kind>revision|tree)/(?P<rev>[^/]+))?")
_FILE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<rev>[^/]+)/(?P<path>.+)")


class FakeHub:
    """Serves `folder` as each of its repositories, from here to `stop`.

    `org/open` wants no token; `org/private` and `org/gated` want `TOKEN`, and the second gives
    nothing for it either; `org/broken` answers 500. Any other is missing. The only revisions are
    `main` and `COMMIT`. The file at `cut` ends after half of its bytes, `cuts` times.
    """

    def __init__(self, folder):
        self.files = {
            str(path.relative_to(folder)): path
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file()
        }
        self.cut = ""
        self.cuts = 0
        self.requests = []
        self.sent_bytes = Counter()
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self})
        )
        self._server.daemon_threads = False  # which `stop` waits for
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}
        )
        self._thread.start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def refusal(self, repo, revision, token):
        """Status code and headers, None where there is nothing to refuse."""
        if token not in (None, TOKEN):
            return 401, {"X-Error-Message": INVALID}
        if repo == "org/broken":
            return 500, {}
        is_known = repo in ("org/open", "org/private", "org/gated")
        if not is_known or (repo == "org/private" and token is None):
            return 401 if token is None else 404, {"X-Error-Code": "RepoNotFound"}
        if repo == "org/gated":
            return 401 if token is None else 403, {"X-Error-Code": "GatedRepo"}
        if revision not in (None, "main", COMMIT):
            return 404, {"X-Error-Code": "RevisionNotFound"}
        return None

    def takes_cut(self, path):
        """Whether this answer is one of those that break off."""
        if path != self.cut or not self.cuts:
            return False
        self.cuts -= 1
        return True


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append((self.command, path))
        asked = _API.fullmatch(path) or _FILE.fullmatch(path)
        if asked is None:
            self._say(404, {})
            return
        token = (self.headers["Authorization"] or "").removeprefix("Bearer ") or None
        refusal = self.hub.refusal(asked["repo"], asked["rev"], token)
        if refusal is not None:
            self._say(*refusal)
        elif "path" in asked.groupdict():
            self._file(asked["path"])
        elif asked["kind"] == "tree":
            self._json([_entry(name, path) for name, path in self.hub.files.items()])
        else:
            siblings = [{"rfilename": name} for name in self.hub.files]
            self._json({"id": asked["repo"], "sha": COMMIT, "siblings": siblings})

    do_HEAD = do_GET  # noqa: N815  # the name that http.server calls

    def _json(self, value):
        self._say(200, {"Content-Type": "application/json"}, json.dumps(value).encode())

    def _file(self, name):
        if name not in self.hub.files:
            self._say(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
            return
        data = self.hub.files[name].read_bytes()
        start = int(re.sub(r"\D", "", self.headers["Range"] or "0"))
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{_sha(data)}"'}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        is_cut = self.command == "GET" and self.hub.takes_cut(name)
        self._say(206 if start else 200, headers, data[start:], is_cut=is_cut, name=name)

    def _say(self, code, headers, body=b"", *, is_cut=False, name=""):
        self.send_response(code)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            sent = body[: len(body) // 2] if is_cut else body
            self.wfile.write(sent)
            self.hub.sent_bytes[name] += len(sent)

    def log_message(self, *given):
        pass


def _sha(data):
    return hashlib.sha256(data).hexdigest()


def _entry(name, path):
    data = path.read_bytes()
    return {"type": "file", "path": name, "size": len(data), "oid": _sha(data)[:40]}
