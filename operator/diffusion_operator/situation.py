"""How a stage stands: what the spec wants beside what was observed (pure)."""

from dataclasses import dataclass

from diffusion_operator.api import Spec, Stage
from diffusion_operator.observe import Observation, Replica
from diffusion_operator.trouble import Trouble, pending, troubles


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why the spec could not be applied in full."""

    reason: str
    message: str
    is_final: bool
    """Only another spec, or rights or quota, will help; else the next try may."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts that conditions turn on."""

    stage: Stage
    observation: Observation
    obstacle: Obstacle | None
    warning: Obstacle | None
    """What may keep replicas from starting; of interest until they have."""

    @property
    def spec(self) -> Spec:
        return self.stage.spec

    @property
    def wanted(self) -> int:
        """Replicas that should serve."""
        return self.stage.pods

    @property
    def ready(self) -> int:
        """Replicas that serve, of whichever revision."""
        return sum(one.is_ready for one in self.observation.replicas)

    @property
    def needed(self) -> int:
        """Replicas without which the stage does not count as available."""
        tolerated = self.spec.update_strategy.max_unavailable
        if isinstance(tolerated, str):
            tolerated = max(1, self.wanted * int(tolerated.rstrip("%")) // 100)
        return max(1, self.wanted - tolerated)

    @property
    def moved(self) -> int:
        """Replicas that the update strategy brings to the present spec by itself."""
        strategy = self.spec.update_strategy
        return 0 if strategy.type == "OnDelete" else max(0, self.wanted - strategy.partition)

    @property
    def updated(self) -> int:
        """Replicas of the present spec that serve."""
        return sum(one.is_ready and self._is_current(one) for one in self.observation.replicas)

    @property
    def is_rolling(self) -> bool:
        """Replicas of an earlier spec are still to be replaced."""
        stale = [one for one in self.observation.replicas if not self._is_current(one)]
        return self.moved > 0 and bool(stale)

    @property
    def serves(self) -> bool:
        """Everything that was asked for is there; while the spec is refused, what was before."""
        if self.ready < self.wanted:
            return False
        workload = self.observation.workload
        if self.obstacle is not None:
            return workload is not None
        return (
            workload is not None
            and workload.is_observed
            and workload.wanted == self.wanted
            and self.updated >= self.moved
        )

    @property
    def troubles(self) -> list[Trouble]:
        """Of replicas that fail."""
        return troubles(self.observation)

    @property
    def pending(self) -> list[str]:
        """Of replicas that neither serve nor fail."""
        failing = {one.pod for one in self.troubles}
        missing = self.wanted - len(self.observation.replicas)
        found = [
            pending(one)
            for one in self.observation.replicas
            if not one.is_ready and one.pod not in failing
        ]
        return found + ([f"{missing} are not created yet"] if missing > 0 else [])

    @property
    def unscheduled(self) -> str:
        """What the scheduler says of the first replica without a node; empty if there is none."""
        found = [one.unscheduled for one in self.observation.replicas if not one.is_leaving]
        return next(filter(None, found), "")

    def _is_current(self, replica: Replica) -> bool:
        workload = self.observation.workload
        return workload is not None and replica.revision == workload.update_revision
