"""The pod of a stage, in three layers: our defaults, the user's template, what makes it a stage."""

from diffusion_operator.api import CONTAINER, GROUP, SUSPECT_LABEL, Stage
from diffusion_operator.desired.arguments import arguments
from diffusion_operator.desired.curve import PublicKeys, curve_mounts, curve_volumes
from diffusion_operator.desired.merge import merge
from diffusion_operator.desired.metadata import labels
from diffusion_operator.desired.model import model_mounts, model_volumes
from diffusion_operator.desired.probes import probes
from diffusion_operator.desired.storage import SCRATCH_PATH, download_path, mounts, volumes
from diffusion_operator.manifest import Manifest

TERMINATION_LOG = "/dev/termination-log"
USER = 10001  # of the stage image
AFTER_DRAIN_S = 30  # to end workers and exit, once accepted requests are answered


def pod_template(stage: Stage, keys: PublicKeys) -> Manifest:
    """The StatefulSet's template. Raises `TemplateError` when the user's does not fit."""
    with_theirs = merge(_defaults(stage), stage.spec.pod_template, "podTemplate")
    template: Manifest = merge(with_theirs, _identity(stage, keys), "podTemplate")
    return template


def _defaults(stage: Stage) -> Manifest:
    account = {"serviceAccountName": stage.name} if stage.spec.service_account.create else {}
    return {
        "metadata": {
            "labels": labels(stage),
            "annotations": {"kubectl.kubernetes.io/default-container": CONTAINER},
        },
        "spec": {
            "automountServiceAccountToken": False,  # a stage does not talk to the API server
            "enableServiceLinks": False,  # else other Services would show up in our environment
            "terminationGracePeriodSeconds": stage.spec.drain.timeout_seconds + AFTER_DRAIN_S,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "fsGroupChangePolicy": "OnRootMismatch",  # else each start walks all the weights
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_default_container(stage)],
            "volumes": volumes(stage),
            **account,
            **_tolerations(stage),
            **_placement(),
        },
    }


def _default_container(stage: Stage) -> Manifest:
    accelerator = stage.spec.accelerator
    limits = {accelerator.resource_name: str(accelerator.count)} if accelerator.count else {}
    return {
        "name": CONTAINER,
        "env": _environment(stage),
        "resources": {"limits": limits},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts(stage),
    }


def _environment(stage: Stage) -> list[Manifest]:
    ours: list[Manifest] = [
        {"name": "HOME", "value": SCRATCH_PATH},
        {"name": "HF_HOME", "value": download_path(stage)},
    ]
    if (secret := stage.spec.model.auth_secret_ref) is not None:
        reference = {"secretKeyRef": {"name": secret.name, "key": secret.key}}
        ours.append({"name": "HF_TOKEN", "valueFrom": reference})
    theirs = [variable.model_dump(by_alias=True, exclude_none=True) for variable in stage.spec.env]
    environment: list[Manifest] = merge(ours, theirs, "spec.env")
    return environment


def _tolerations(stage: Stage) -> Manifest:
    accelerator = stage.spec.accelerator
    if accelerator.count == 0:
        return {}
    taint = {"key": accelerator.resource_name, "operator": "Exists", "effect": "NoSchedule"}
    return {"tolerations": [taint]}  # nodes with devices are often closed to everyone else


def _placement() -> Manifest:
    """In every template from the start, since a template that changes replaces all pods."""
    unsuspected = {"matchExpressions": [{"key": SUSPECT_LABEL, "operator": "DoesNotExist"}]}
    wish = {"weight": 100, "preference": unsuspected}
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {preferred: [wish]}}}


def _identity(stage: Stage, keys: PublicKeys) -> Manifest:
    token = stage.spec.restart_token
    restart = {} if token is None else {f"{GROUP}/restart-token": token}
    return {
        "metadata": {"labels": stage.selector, "annotations": restart},
        "spec": {
            "containers": [_stage_container(stage)],
            "volumes": [*model_volumes(stage.spec.model), *curve_volumes(stage, keys)],
        },
    }


def _stage_container(stage: Stage) -> Manifest:
    spec = stage.spec
    policy = {} if spec.image_pull_policy is None else {"imagePullPolicy": spec.image_pull_policy}
    return {
        "name": CONTAINER,
        "image": spec.image,
        **policy,
        "args": arguments(spec),
        "ports": [
            {"name": "zmq", "containerPort": spec.ports.zmq, "protocol": "TCP"},
            {"name": "admin", "containerPort": spec.ports.admin, "protocol": "TCP"},
        ],
        "volumeMounts": [*model_mounts(spec.model), *curve_mounts(stage)],
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **probes(spec.startup.timeout_seconds),
    }
