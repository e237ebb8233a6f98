"""The stage process: starts, serves, drains and dies, each in a bounded time."""

import logging
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import asdict
from types import FrameType
from typing import Any

from diffusion_stage.config.resolve import resolve
from diffusion_stage.config.stage import StageConfig
from diffusion_stage.engine.engine import DiffusionEngine, EngineLoad
from diffusion_stage.errors import FatalError, HangError, UnavailableError
from diffusion_stage.pipelines import source
from diffusion_stage.server import admin, termination, watchdog
from diffusion_stage.server.frontend import Frontend
from diffusion_stage.server.health import Health, Phase
from diffusion_stage.server.metrics import Metrics
from diffusion_stage.wire.messages import Draining, EngineDead

logger = logging.getLogger(__name__)

FLUSH_S = 0.5  # for errors to clients, before anything else happens on death
LINGER_S = 5.0  # for results to clients, after a drain


class _TerminatedError(BaseException):
    """SIGTERM came before there was anything to drain."""


class StageDiffusionProc:
    """Hosts one engine behind a ZMQ socket and an admin port.

    The engine's loop runs in the main thread, and with the `uni` executor so do forwards; sockets,
    HTTP and the watchdog have threads of their own.
    """

    def __init__(self, config: StageConfig) -> None:
        self._config = config
        self._name = config.serving.name or socket.gethostname()
        self._health = Health()
        self._engine: DiffusionEngine | None = None
        self._frontend: Frontend | None = None
        self._metrics = Metrics(self._load)
        self._dying = threading.Lock()
        self._is_refusing = False
        self._drain_until = float("inf")

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; returns the exit code of a drained stage.

        A fatal error does not return: it ends the process with its own exit code.
        """
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        try:
            self._serve()
        except _TerminatedError:
            logger.info("terminated during start-up")
            if self._engine is not None:
                self._engine.close(grace_s=0)
        except FatalError as error:
            self._die(error)
        return 0

    def _serve(self) -> None:
        serving = self._config.serving
        runtime = resolve(self._config)
        found = source.find(self._config.model.model, self._config.model.revision)
        if found.is_local:  # nothing to ask the hub for, so nobody waits for a network that is cut
            os.environ.setdefault("HF_HUB_OFFLINE", "1")
        server = admin.AdminServer(serving.host, serving.admin_port, self._routes())
        server.start()
        self._engine = engine = DiffusionEngine(self._config, runtime)
        frontend = Frontend(engine, self._health, self._metrics, self._status, name=self._name)
        self._frontend = frontend
        frontend.start()
        logger.info("zmq on port %d, admin on port %d", frontend.port, server.port)
        engine.start()
        self._watch(engine)
        self._health.enter(Phase.SERVING)
        logger.info("%s is ready after %.1f s", self._name, self._health.uptime_s)
        engine.run(self._is_drained)
        engine.close()
        frontend.stop(LINGER_S)
        server.stop()
        logger.info("drained")

    def _watch(self, engine: DiffusionEngine) -> None:
        limit_s = self._config.timeouts.hang_timeout_s

        def look(now: float) -> HangError | None:
            return watchdog.find_hang(
                engine.activity(), ticked_at=engine.ticked_at, limit_s=limit_s, now=now
            )

        watchdog.Watchdog(look, self._die).start()

    def _on_signal(self, _signum: int, _frame: FrameType | None) -> None:
        """In the main thread, between two byte codes."""
        if self._health.phase is Phase.STARTUP:
            raise _TerminatedError
        if self._health.phase is not Phase.SERVING:
            return
        timeout_s = self._config.timeouts.drain_timeout_s
        self._health.enter(Phase.DRAINING)
        self._drain_until = time.monotonic() + timeout_s
        # The rest takes locks, which the interrupted code may hold.
        threading.Thread(target=self._begin_drain, name="drain", daemon=True).start()

    def _begin_drain(self) -> None:
        assert self._engine is not None
        assert self._frontend is not None
        self._engine.refuse(UnavailableError("draining: this replica is about to end"))
        self._is_refusing = True
        self._frontend.announce(Draining())
        logger.info("draining: %s", self._load())

    def _is_drained(self) -> bool:
        """Asked in each turn of the loop; the loop ends once there is no work either."""
        if not self._is_refusing:
            return False
        assert self._engine is not None
        if time.monotonic() > self._drain_until:
            self._drain_until = float("inf")
            self._engine.end_all(UnavailableError("the drain time is over"))
        return True

    def _die(self, error: FatalError) -> None:
        """Clients first, then probes, last words, workers, end. From any thread; acts once."""
        if not self._dying.acquire(blocking=False):
            threading.Event().wait()  # another thread is ending this process
        phase, inflight = self._health.phase, 0
        logger.error("%s: %s", error.reason, error)
        if self._engine is not None:
            self._engine.fail(error)
            inflight = self._engine.lost_requests
        if self._frontend is not None:
            self._frontend.announce(EngineDead(reason=error.reason, message=str(error)))
            self._frontend.flush(FLUSH_S)
        self._health.die(error)
        termination.write(
            self._config.serving.termination_log,
            error,
            phase=str(phase),
            inflight=inflight,
            uptime_s=self._health.uptime_s,
        )
        if self._engine is not None:
            self._engine.close(grace_s=0)
        if self._frontend is not None:
            self._frontend.stop(FLUSH_S)
        logging.shutdown()
        sys.stderr.flush()
        os._exit(error.exit_code)

    def _routes(self) -> dict[str, Any]:
        return {
            "/startupz": admin.probe(self._health.startup),
            "/livez": admin.probe(self._health.live),
            "/readyz": admin.probe(self._health.ready),
            "/metrics": self._metrics.scrape,
            "/status": admin.document(self._status),
        }

    def _load(self) -> EngineLoad:
        return EngineLoad(0, 0, 0) if self._engine is None else self._engine.load()

    def _status(self) -> dict[str, Any]:
        """What `/status` and the control call `status` tell."""
        death = self._health.death
        status: dict[str, Any] = {
            "name": self._name,
            "phase": str(self._health.phase),
            "uptime_s": round(self._health.uptime_s, 1),
            "model": self._config.model.model,
            "death": None if death is None else {"reason": death.reason, "message": str(death)},
        }
        engine = self._engine
        if engine is not None:
            capabilities = engine.capabilities
            status["pipeline"] = capabilities.pipeline if capabilities else None
            status["runtime"] = str(engine.runtime)
            status["load"] = asdict(self._load())
            status["workers"] = [asdict(rank) for rank in engine.activity()]
        return status
