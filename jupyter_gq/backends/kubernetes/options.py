"""Options of the Kubernetes backend."""

from dataclasses import dataclass, field

from jupyter_gq.backends.capabilities import CheckpointFolders
from jupyter_gq.domain.json_types import JsonMapping

from .shared_volumes import SharedVolume


@dataclass(frozen=True, kw_only=True, slots=True)
class KubernetesOptions:
    """The settings of the backend, frozen; `KubernetesBackend` explains each. Times are in seconds."""

    installation: str
    hub_namespace: str
    nodes_namespace: str
    training_namespace: str
    service_url: str = ""
    runner_image: str = ""
    reservation_image: str = "registry.k8s.io/pause:3.10"
    reservation_priority_class: str = ""
    training_priority_class: str = ""
    placeholder_priority_class: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    unschedulable_after: float = 20.0
    reservation_timeout: float = 30.0
    linger: float = 60.0
    start_timeout: float = 1200.0
    gang_start_timeout: float = 300.0
    gang_grace: float = 10.0
    attach_timeout: float = 180.0
    pull_timeout: float = 60.0
    agent_silent_after: float = 60.0
    node_lost_after: float = 60.0
    leave_cordoned: bool = True
    as_jobs: bool = False
    checkpoint_claim: str = ""
    checkpoint_url: str = ""
    user_secret: str = ""
    shared_volumes: tuple[SharedVolume, ...] = ()
    pod_overrides: JsonMapping = field(default_factory=dict)
    request_timeout: float = 10.0
    creations: int = 100
    starts_ahead: int = 200
    observe_all_pods: bool = False

    @property
    def checkpoint_folders(self) -> CheckpointFolders | None:
        """How checkpoints of jobs are kept; None if they are lost with each pod."""
        if self.checkpoint_claim:
            return CheckpointFolders.SHARED
        return CheckpointFolders.EACH_TASK if self.checkpoint_url else None
