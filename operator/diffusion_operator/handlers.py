"""Kopf's side: every watch event only says which stage to look at.

Run as `kopf run -m diffusion_operator.handlers -A --standalone`. Events carry no decision, so one
that is lost, doubled or late does no harm; the resync makes up for the lost.
"""

import asyncio
import logging
import os
from typing import Any

import kopf

from diffusion_operator import crd
from diffusion_operator.api import API_VERSION, PLURAL, STAGE_LABEL
from diffusion_operator.cluster import Cluster, connect
from diffusion_operator.metrics import Metrics, MetricsServer
from diffusion_operator.reconciler import Reconciler
from diffusion_operator.remedies import Remedies
from diffusion_operator.settings import Settings
from diffusion_operator.suspects import Suspects
from diffusion_operator.workqueue import Key, WorkQueue

WATCHED = (
    ("apps", "statefulsets"),
    ("networking.k8s.io", "networkpolicies"),
    ("policy", "poddisruptionbudgets"),
    ("", "configmaps"),
    ("", "pods"),
    ("", "serviceaccounts"),
    ("", "services"),
)
NOISY = (
    "kopf.objects",
    "kopf.activities.probe",
    "aiohttp.access",
)  # a line for each event or probe
# Kopf's own end with 21 s: the watches would sleep on long after the API server is back. And they
# end after 54 s, and with them, where the API server answers 5xx or 403, the operator. Ours end
# after ten minutes: then something is wrong that a restart may cure, and that people should see.
BACKOFFS_S = (1, 1, 2, 3) + 120 * (5,)
OURS = {STAGE_LABEL: kopf.PRESENT}

logger = logging.getLogger(__name__)


class NoDiffBase(kopf.DiffBaseStorage):
    """Handlers of events need no diffs, for which Kopf copies each object whole: half its work."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        raise NotImplementedError("only handlers of changes store anything")


@kopf.on.startup(errors=kopf.ErrorsMode.PERMANENT)  # else a failing start is retried in silence
async def start(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    """Start the workers; `memo` carries them to the other handlers."""
    configure(settings)
    chosen = Settings.from_environ(os.environ)
    settings.scanning.disabled = not chosen.scan_cluster
    memo.client = await connect()
    memo.stuck_after_s = chosen.stuck_after_s
    memo.metrics = Metrics()
    memo.metrics_server = MetricsServer(memo.metrics, chosen.metrics_port)
    cluster = Cluster(memo.client)
    if told := await crd.trouble(cluster):
        logger.warning(told)
    suspects = None
    if chosen.manage_nodes:
        suspects = Suspects(cluster, lifetime_s=chosen.suspect_node_s)
    reconciler = Reconciler(
        cluster,
        remedies=Remedies(cluster, suspects),
        metrics=memo.metrics,
        resync_s=chosen.resync_s,
    )
    memo.queue = WorkQueue(reconciler, workers=chosen.workers, tally=memo.metrics)
    memo.tasks = [asyncio.create_task(memo.queue.run(), name="reconcile workers")]
    if suspects is not None:
        memo.tasks.append(asyncio.create_task(suspects.run(), name="suspect nodes"))


@kopf.on.cleanup()
async def stop(memo: kopf.Memo, **_: Any) -> None:
    """End the workers; Kopf waits five seconds for any task that is left."""
    for task in memo.tasks:
        task.cancel()
    await asyncio.wait(memo.tasks)
    memo.metrics_server.close()
    await memo.client.close()


@kopf.on.login()
def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    """With the library that `connect` uses, so that both take the same credentials."""
    return kopf.login_via_client(**kwargs)


@kopf.on.probe(id="workers")
async def check_workers(memo: kopf.Memo, **_: Any) -> str:
    """The liveness probe fails by `PermanentError`; any other would be retried inside of it."""
    for task in memo.tasks:
        if task.done():
            raise kopf.PermanentError(f"the {task.get_name()} have ended")
    lag_s = memo.queue.lag_s()
    if lag_s > memo.stuck_after_s:
        raise kopf.PermanentError(f"a pass has been due or running for {lag_s:.0f} s")
    return "running"


@kopf.on.event(API_VERSION, PLURAL)
async def wake_stage(namespace: str | None, name: str, memo: kopf.Memo, **_: Any) -> None:
    """A stage was made, changed or deleted."""
    memo.queue.add(Key(str(namespace), name))


@kopf.on.event("apps/v1", "statefulsets", labels=OURS)
@kopf.on.event("networking.k8s.io/v1", "networkpolicies", labels=OURS)
@kopf.on.event("policy/v1", "poddisruptionbudgets", labels=OURS)
@kopf.on.event("v1", "configmaps", labels=OURS)
@kopf.on.event("v1", "pods", labels=OURS)
@kopf.on.event("v1", "serviceaccounts", labels=OURS)
@kopf.on.event("v1", "services", labels=OURS)
async def wake_owner(namespace: str | None, labels: kopf.Labels, memo: kopf.Memo, **_: Any) -> None:
    """Something with our label was made, changed or deleted."""
    memo.queue.add(Key(str(namespace), labels[STAGE_LABEL]))


def configure(settings: kopf.OperatorSettings) -> None:
    """Deadlines, selectors and quiet; Kopf's own would leave a lost watch unseen for minutes."""
    settings.posting.enabled = False  # our Events say what happened, once
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.networking.error_backoffs = BACKOFFS_S
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 310
    for group, plural in WATCHED:
        settings.watching.label_selectors[group, plural] = STAGE_LABEL
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
