"""What to do next, by the reason of a condition (pure)."""

LOGS = "kubectl dstage logs {name} --previous"
BY_REASON = {
    "AllReplicasReady": "",
    "ScaledToZero": "kubectl scale dstage {name} --replicas=1",
    "Suspending": "wait: replicas finish what they have accepted",
    "Suspended": "kubectl dstage resume {name}",
    "WaitingForReplicas": "wait",
    "RollingUpdate": "wait: replicas of the earlier spec are replaced one after the other",
    "RolloutStuck": "fix the spec: it goes through the failing replica at once",
    "InsufficientCapacity": "add nodes, or ask for less in the spec",
    "ConfigInvalid": "fix the spec: the message names what the stage refuses",
    "ModelUnavailable": "fix spec.model, or put the model there",
    "AcceleratorUnusable": "look at the node: a device is lost, or its driver does not answer",
    "EngineDied": "after one death, wait for the restart; after more, " + LOGS,
    "WorkerDied": "after one death, wait for the restart; after more, " + LOGS,
    "DeviceOutOfMemory": "ask for smaller images, or give the replicas larger devices",
    "OOMKilled": "raise the container's memory limit in spec.podTemplate",
    "Hang": "look at the node, or raise spec.failurePolicy.hangTimeoutSeconds",
    "StartupTimeout": "look at the node, or raise spec.startup.timeoutSeconds",
    "Killed": "kubectl describe pod: a signal came from outside, such as after a failed probe",
    "CrashLoop": "remove the cause of the last death below; " + LOGS,
    "ImagePull": "fix spec.image, or the Secret that it is pulled with",
    "ContainerNotCreated": "fix the Secret or ConfigMap that the message names",
    "ModelClaimMissing": "make the claim that the message names, or fix spec.model",
    "ModelCacheConflict": "use a claim for many nodes, or a claim for each replica",
    "Evicted": "wait: the pod is replaced",
    "PodFailed": "wait: the pod is replaced",
    "PodTemplateRejected": "fix spec.podTemplate; replicas of the former spec serve on",
    "ImageVolumesUnsupported": "take the model from elsewhere, or use a newer cluster",
    "ApplyRefused": "fix the manifest, the operator's rights or the quota, as the message says",
    "ApplyFailed": "wait; if it stays, look at the cluster's webhooks",
    "InvalidSpec": "upgrade the operator: the CRD is newer",
    "Held": "fix the spec, or try again: kubectl dstage restart {name}",
    "RestartBudgetExhausted": "read the Events below; " + LOGS,
}
OPERATORS = "kubectl get pods -A -l app.kubernetes.io/name=diffusion-operator"
NO_STATUS = f"see whether the operator runs: {OPERATORS}"
UNKNOWN = "kubectl describe dstage {name}"


def next_step(reason: str, name: str) -> str:
    """One line for whoever is on call. `reason` empty: the operator has written no status."""
    if not reason:
        return NO_STATUS
    return BY_REASON.get(reason, UNKNOWN).format(name=name)
