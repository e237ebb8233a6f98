"""The stage process: starts, serves, drains and dies, each in a bounded time."""

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from types import FrameType
from typing import Any

from diffusion_stage.config.resolve import resolve
from diffusion_stage.config.stage import StageConfig
from diffusion_stage.engine.engine import DiffusionEngine
from diffusion_stage.engine.figures import EngineFigures, EngineLoad
from diffusion_stage.errors import ConfigError, EngineDiedError, FatalError, UnavailableError
from diffusion_stage.pipelines import source
from diffusion_stage.server import admin, termination, watchdog
from diffusion_stage.server.frontend import Frontend
from diffusion_stage.server.health import Health, Phase
from diffusion_stage.server.metrics import Metrics
from diffusion_stage.wire.messages import Draining, EngineDead

logger = logging.getLogger(__name__)

FLUSH_S = 0.5  # for errors to clients, before anything else happens on death
LINGER_S = 5.0  # for results to clients, after a drain
DEATH_S = 8.0  # for all that happens on death


class _TerminatedError(BaseException):
    """SIGTERM came before there was anything to drain."""


class StageDiffusionProc:
    """Hosts one engine behind a ZMQ socket and an admin port; `on_listening` is told the first.

    The engine's loop runs in the main thread, and with the `uni` executor so do forwards; sockets,
    HTTP and the watchdog have threads of their own.
    """

    def __init__(
        self, config: StageConfig, *, on_listening: Callable[[int], None] = lambda _port: None
    ) -> None:
        self._config = config
        self._on_listening = on_listening
        self._name = config.serving.name or socket.gethostname()
        self._health = Health()
        self._engine: DiffusionEngine | None = None
        self._frontend: Frontend | None = None
        self._metrics = Metrics(self._load, self._figures)
        self._ending = threading.Lock()
        self._is_terminated = False

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; returns the exit code of a drained stage.

        A fatal error does not return: it ends the process with its own exit code.
        """
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        try:
            self._serve()
        except _TerminatedError:
            self._claim_the_end()
            logger.info("terminated during start-up")
            if self._engine is not None:
                self._engine.close(grace_s=0)
        except FatalError as error:
            self._die(error)
        except Exception as error:  # no end without a code of the table and last words
            logger.exception("the stage failed")
            self._die(EngineDiedError(f"{type(error).__name__}: {error}"))
        return 0

    def _serve(self) -> None:
        resolve(self._config)  # what is wrong with it is told before anything starts
        watchdog.Watchdog(self._look, self._die).start()
        found = source.find(self._config.model.model, self._config.model.revision)
        if found.is_local:  # nothing to ask the hub for, so nobody waits for a network that is cut
            os.environ.setdefault("HF_HUB_OFFLINE", "1")
        server = self._admin_server()
        self._engine = engine = DiffusionEngine.of(self._config)
        frontend = Frontend(engine, self._health, self._metrics, self._status, name=self._name)
        self._frontend = frontend
        frontend.start()
        self._on_listening(frontend.port)
        logger.info("zmq on port %d, admin on port %d", frontend.port, server.port)
        engine.start()
        self._health.enter(Phase.SERVING)
        logger.info("%s is ready after %.1f s", self._name, self._health.uptime_s)
        engine.run(lambda: engine.is_refusing)
        self._claim_the_end()
        engine.close()
        frontend.stop(LINGER_S)
        server.stop()
        logger.info("drained")

    def _admin_server(self) -> admin.AdminServer:
        host, port = self._config.serving.host, self._config.serving.admin_port
        try:
            server = admin.AdminServer(host, port, self._routes())
        except OSError as error:
            raise ConfigError(
                f"--admin-port {port} on {host}: {error}; allowed: a free one"
            ) from None
        server.start()
        return server

    def _look(self, now: float) -> FatalError | None:
        """What the watchdog finds."""
        timeouts, engine = self._config.timeouts, self._engine
        if self._health.phase is Phase.STARTUP:
            return watchdog.find_late_start(self._health.uptime_s, timeouts.startup_timeout_s)
        assert engine is not None
        return watchdog.find_hang(
            engine.activity(),
            ticked_at=engine.ticked_at,
            limit_s=timeouts.hang_timeout_s,
            now=now,
        )

    def _on_signal(self, _signum: int, _frame: FrameType | None) -> None:
        """In the main thread, between two byte codes."""
        if self._is_terminated or self._ending.locked():
            return
        self._is_terminated = True
        if self._health.phase is Phase.STARTUP:
            raise _TerminatedError
        self._health.enter(Phase.DRAINING)
        # The rest takes locks, which the interrupted code may hold.
        threading.Thread(target=self._drain, name="drain", daemon=True).start()

    def _drain(self) -> None:
        """Take no more work; what is left when the time is over ends with an error.

        The engine's loop, in the main thread, ends as soon as there is no work.
        """
        assert self._engine is not None
        assert self._frontend is not None
        logger.info("draining: %s", self._load())
        self._frontend.announce(Draining())
        self._engine.refuse(UnavailableError("draining: this replica is about to end"))
        time.sleep(self._config.timeouts.drain_timeout_s)
        self._engine.end_all(UnavailableError("the drain time is over"))

    def _claim_the_end(self) -> None:
        """One thread ends this process; any other that wants to waits here for that."""
        if not self._ending.acquire(blocking=False):
            threading.Event().wait()

    def _die(self, error: FatalError) -> None:
        """Clients first, then probes, last words, workers, end. From any thread; acts once."""
        self._claim_the_end()
        limit = threading.Timer(DEATH_S, os._exit, [error.exit_code])
        limit.daemon = True
        limit.start()
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

    def _figures(self) -> EngineFigures | None:
        return None if self._engine is None else self._engine.figures

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
            status["batches"] = {str(n): count for n, count in sorted(engine.figures.sizes.items())}
            status["workers"] = [asdict(rank) for rank in engine.activity()]
        return status
