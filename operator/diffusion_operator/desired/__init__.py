"""What must exist for a stage: a pure function from the spec to manifests.

The same spec gives the same manifests in every process and version, since a changed pod template
replaces all pods: `tests/operator/golden` holds them.
"""

from diffusion_operator.api import Stage
from diffusion_operator.desired.disruption import disruption_budget
from diffusion_operator.desired.network import headless_service, service
from diffusion_operator.desired.workload import stateful_set
from diffusion_operator.manifest import Manifest


def desired_state(stage: Stage) -> list[Manifest]:
    """In the order of creation: names resolve before pods start.

    Raises `TemplateError` when the pod template cannot be merged.
    """
    budgets = [disruption_budget(stage)] if stage.spec.pod_disruption_budget.enabled else []
    return [headless_service(stage), service(stage), *budgets, stateful_set(stage)]
