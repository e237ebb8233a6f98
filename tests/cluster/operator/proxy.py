"""A proxy before the API server that misbehaves on demand: `python proxy.py KUBECONFIG PORT`.

Reads one JSON command a line from its standard input and answers each with one line. It speaks
plain HTTP to its client, who brings the token, and the API server's own TLS to that.
"""

import asyncio
import dataclasses
import json
import ssl
import sys
from collections import Counter
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.cluster.operator.requests import parse

HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
GONE = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}
MATCHED = ("verb", "resource", "namespace", "name")


class Proxy:
    """`rules` are tried in order; the first that fits a request says what becomes of it."""

    def __init__(self, server, ca, token):
        self._server = server
        self._authorization = {"Authorization": f"Bearer {token}"}
        self._context = ssl.create_default_context(cafile=ca)
        self._rules = []
        self._seen = []
        self._watches = {}
        self._writes_until_held = None
        self._open = asyncio.Event()
        self._open.set()
        self._first = {}

    async def serve(self, port):
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(limit=0, ssl=self._context)
        self._upstream = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        )
        self._port = port
        await self._listen()

    # --- commands ---

    async def command(self, do, **options):
        return await getattr(self, f"do_{do}")(**options)

    async def do_add(self, **rule):
        self._rules.append(rule)

    async def do_heal(self):
        """Forget every rule, let held requests go on, and be there."""
        self._rules.clear()
        self._first.clear()
        self._writes_until_held = None
        self._open.set()
        if self._site is None:
            await self._listen()

    async def do_mark(self):
        """How many requests there were."""
        return len(self._seen)

    async def do_requests(self, since):
        return [dataclasses.asdict(one) for one in self._seen[since:]]

    async def do_watches(self, become):
        """What becomes of the watches that run now: `stalled`, `gone` or `cut`."""
        for queue in self._watches.values():
            queue.put_nowait(become)
        return len(self._watches)

    async def do_hold(self, after_writes):
        """After so many more writes, which go through, nothing is answered any more."""
        self._writes_until_held = after_writes

    async def do_is_held(self):
        return not self._open.is_set()

    async def do_away(self):
        """Refuse connections, and end those that are there."""
        await self._runner.cleanup()
        self._site = None

    async def do_send(self, requests, at_once):
        """An administrator's own requests, as method, path and body; gives how often which status.

        Many of them cost no kubectl each.
        """
        turn = asyncio.Semaphore(at_once)
        return Counter(await asyncio.gather(*(self._send(turn, *one) for one in requests)))

    async def _send(self, turn, method, path, body):
        headers = dict(self._authorization)
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        url = self._server + path
        async with (
            turn,
            self._upstream.request(method, url, json=body, headers=headers) as answer,
        ):
            await answer.read()
            return answer.status

    async def _listen(self):
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", self.handle)
        # What a dead client waited for is not to be sent once the proxy is healed.
        self._runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await self._site.start()

    # --- requests ---

    async def handle(self, incoming):
        request = parse(incoming.method, incoming.path, incoming.query_string)
        body = await incoming.read()
        request = dataclasses.replace(request, size=len(body))
        await self._open.wait()
        rule = self._rule_for(request)
        answer = await self._misbehave(incoming, rule)
        if answer is None:
            answer = await self._forward(incoming, request, body)
        if request.verb != "watch" or answer.status != 200:
            self._seen.append(dataclasses.replace(request, status=answer.status))
        if rule is not None and rule["fault"] == "replay":
            answer = self._replay(incoming, answer)
        if request.is_write:
            self._count()
        await self._open.wait()
        return answer

    def _rule_for(self, request):
        for rule in self._rules:
            if all(rule.get(key) in (None, getattr(request, key)) for key in MATCHED):
                if "times" in rule:
                    rule["times"] -= 1
                    if rule["times"] == 0:
                        self._rules.remove(rule)
                return rule
        return None

    async def _misbehave(self, incoming, rule):
        match rule:
            case {"fault": "status", "status": status, **more}:
                status_body = {**GONE, "reason": "", "code": status, "message": "on demand"}
                return web.json_response(status_body, status=status, headers=more.get("headers"))
            case {"fault": "garbage"}:
                return web.Response(text="<html>not what was asked for", content_type="text/html")
            case {"fault": "slow", "seconds": seconds}:
                await asyncio.sleep(seconds)
            case {"fault": "drop"}:
                incoming.transport.abort()
                await asyncio.sleep(60)  # until the handler is cancelled
        return None

    def _replay(self, incoming, answer):
        """The first answer that there was, for ever."""
        first = self._first.setdefault(incoming.path_qs, answer)
        return web.Response(status=first.status, headers=first.headers, body=first.body)

    def _count(self):
        if self._writes_until_held is not None:
            self._writes_until_held -= 1
            if self._writes_until_held == 0:
                self._open.clear()

    async def _forward(self, incoming, request, body):
        headers = {k: v for k, v in incoming.headers.items() if k.lower() not in HOP_BY_HOP}
        url = self._server + incoming.raw_path
        async with self._upstream.request(
            incoming.method, url, headers=headers, data=body or None
        ) as upstream:
            passed = {k: v for k, v in upstream.headers.items() if k.lower() not in HOP_BY_HOP}
            if request.verb == "watch" and upstream.status == 200:
                self._seen.append(dataclasses.replace(request, status=200))
                return await self._stream(incoming, upstream, passed)
            return web.Response(status=upstream.status, headers=passed, body=await upstream.read())

    async def _stream(self, incoming, upstream, headers):
        """Lines as they come, until this watch is told to become something else."""
        answer = web.StreamResponse(headers=headers)
        await answer.prepare(incoming)
        queue = self._watches[id(incoming)] = asyncio.Queue()
        told = asyncio.ensure_future(queue.get())
        try:
            while True:
                line = asyncio.ensure_future(upstream.content.readline())
                await asyncio.wait([line, told], return_when=asyncio.FIRST_COMPLETED)
                if told.done():
                    line.cancel()
                    return await self._become(told.result(), incoming, answer)
                if not line.result():
                    return answer
                await answer.write(line.result())
        finally:
            told.cancel()
            del self._watches[id(incoming)]

    async def _become(self, what, incoming, answer):
        if what == "gone":
            await answer.write(json.dumps({"type": "ERROR", "object": GONE}).encode() + b"\n")
        elif what == "cut":
            incoming.transport.abort()
        else:
            await asyncio.sleep(3600)  # the socket stays open, and nothing comes
        return answer


async def main(config, port):
    cluster = config["clusters"][0]["cluster"]
    token = config["users"][0]["user"]["token"]
    proxy = Proxy(cluster["server"], cluster["certificate-authority"], token)
    await proxy.serve(port)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        answer = await proxy.command(**json.loads(line))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2])))
