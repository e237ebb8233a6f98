"""What must exist for a stage: a pure function from the spec to manifests.

The same spec gives the same manifests in every process and version, since a changed pod template
replaces all pods: `tests/operator/golden` holds them.
"""

from diffusion_operator.api import Stage
from diffusion_operator.desired.access import network_policy, service_account
from diffusion_operator.desired.curve import PublicKeys, config_map
from diffusion_operator.desired.disruption import disruption_budget
from diffusion_operator.desired.network import headless_service, service
from diffusion_operator.desired.workload import stateful_set
from diffusion_operator.manifest import Manifest


def desired_state(stage: Stage, keys: PublicKeys) -> list[Manifest]:
    """In the order of creation: names resolve before pods start, and what pods mount is there.

    `keys` are those of `stage.spec.curve`, if it has one. Raises `TemplateError` when the pod
    template cannot be merged.
    """
    spec = stage.spec
    workload = stateful_set(stage, keys)
    return [
        headless_service(stage),
        service(stage),
        *([disruption_budget(stage)] if spec.pod_disruption_budget.enabled else []),
        *([network_policy(stage)] if spec.network_policy.enabled else []),
        *([service_account(stage)] if spec.service_account.create else []),
        *([] if spec.curve is None else [config_map(stage, spec.curve, keys)]),
        workload,
    ]
