"""The Services: one name for each replica, and one address for a first contact."""

from diffusion_operator.api import Stage
from diffusion_operator.desired.metadata import metadata
from diffusion_operator.manifest import Manifest


def headless_service(stage: Stage) -> Manifest:
    """Its records are the ready replicas: clients learn from it where to connect."""
    return _service(
        stage,
        stage.headless,
        clusterIP="None",
        publishNotReadyAddresses=False,
        ports=[_port("zmq", stage.spec.ports.zmq), _port("admin", stage.spec.ports.admin)],
    )


def service(stage: Stage) -> Manifest:
    """Balances once per connection: for a first contact and for scripts."""
    return _service(stage, stage.name, type="ClusterIP", ports=[_port("zmq", stage.spec.ports.zmq)])


def _service(stage: Stage, name: str, **spec: object) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(stage, name),
        "spec": {"selector": stage.selector, **spec},
    }


def _port(name: str, number: int) -> Manifest:
    return {"name": name, "port": number, "targetPort": name, "protocol": "TCP"}
