"""A stand-in for a stage: its probes, exit codes and last words, without any model.

`GET /die?code=71&rank=1` ends it as a dead worker would. A model at /models/none is missing.
"""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

NAMES = {66: "ModelUnavailable", 69: "AcceleratorUnusable", 70: "EngineDied", 71: "WorkerDied"}
STATUS = {
    "phase": "serving",
    "uptime_s": 5.0,
    "load": {"waiting": 3, "running": 2, "materializing": 0},
    "workers": [{"rank": 0, "device": "cpu:0"}, {"rank": 1, "device": "cpu:1"}],
}


def die(code, message, **facts):
    said = {"v": 1, "reason": NAMES[code], "exitCode": code, "msg": message, **facts}
    Path("/dev/termination-log").write_text(json.dumps(said))
    os._exit(code)


def value_of(flag):
    return next(arg.partition("=")[2] for arg in sys.argv if arg.startswith(f"--{flag}="))


class Admin(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/die":
            rank = int(query["rank"])
            facts = {"rank": rank, "device": f"cpu:{rank}", "signal": 9}
            die(int(query["code"]), f"worker {rank} was killed by SIGKILL", **facts)
        if url.path == "/eat":
            self.server.eaten = b"x" * (1 << 30)
        self.send_response(200)
        self.end_headers()
        if url.path == "/status":
            self.wfile.write(json.dumps(STATUS).encode())

    def log_message(self, *_):
        pass


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if value_of("model") == "/models/none":
    die(66, "/models/none: no such folder; looked for model_index.json")
ThreadingHTTPServer(("", int(value_of("admin-port"))), Admin).serve_forever()
