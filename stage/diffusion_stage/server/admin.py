"""The admin port: probes, metrics and status over HTTP, on threads of their own."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, str, str]
"""Status code, content type, body."""
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


class AdminServer:
    """Serves each path by the function given for it. The owner stops it."""

    def __init__(self, host: str, port: int, routes: dict[str, Callable[[], Answer]]) -> None:
        self._server = ThreadingHTTPServer((host, port), _handler(routes))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="admin"
        )
        self._thread.daemon = True

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def probe(check: Callable[[], tuple[bool, str]]) -> Callable[[], Answer]:
    """A route that answers 200 while `check` is content, else 503, with its words."""

    def answer() -> Answer:
        is_content, words = check()
        return (200 if is_content else 503), TEXT, words + "\n"

    return answer


def document(read: Callable[[], Any]) -> Callable[[], Answer]:
    """A route that answers with JSON."""
    return lambda: (200, JSON, json.dumps(read()) + "\n")


def _handler(routes: dict[str, Callable[[], Answer]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # a client that says nothing keeps a thread no longer

        def do_GET(self) -> None:  # the name that http.server calls
            route = routes.get(self.path.partition("?")[0])
            if route is None:
                code, kind, body = 404, TEXT, f"there are {', '.join(routes)}\n"
            else:
                code, kind, body = route()
            data = body.encode()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Probes come every second; they are not worth a line."""

    return Handler
