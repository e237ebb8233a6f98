"""The probes of the stage container, all on its admin port."""

from diffusion_operator.manifest import Manifest

# The stage ends itself with 75 at its limit, and says why; the kubelet steps in only after that.
AFTER_STARTUP_S = 30
KILL_GRACE_S = 10  # a dead or hung engine must not hold its device for the grace of a drain


def probes(startup_timeout_s: int) -> Manifest:
    """Quick to see a replica come and go, slow to kill it.

    Readiness fails at the first refusal, a second after the engine died; a probe that gets no
    answer waits longer than a second, since a busy machine may be late.
    """
    return {
        "startupProbe": _probe(
            "/startupz", period_s=1, timeout_s=3, threshold=startup_timeout_s + AFTER_STARTUP_S
        ),
        "livenessProbe": {
            **_probe("/livez", period_s=10, timeout_s=5, threshold=3),
            "terminationGracePeriodSeconds": KILL_GRACE_S,
        },
        "readinessProbe": _probe("/readyz", period_s=1, timeout_s=3, threshold=1),
    }


def _probe(path: str, *, period_s: int, timeout_s: int, threshold: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": "admin"},
        "periodSeconds": period_s,
        "timeoutSeconds": timeout_s,
        "failureThreshold": threshold,
    }
