"""The additions that a notebook's pod needs to get its share. The service computes them, and a spawner merges them."""

from pydantic import Field

from jupyter_gq.client.strict_model import StrictModel
from jupyter_gq.domain.json_types import JsonObject


class PodAdditions(StrictModel):
    """Additions to the pod of a notebook, merged after the administrator's settings and before `modify_pod_hook`."""

    node: str | None = Field(default=None, description="The only node on which the pod may run; null: any.")
    environment: dict[str, str] = Field(default_factory=dict)
    resources: dict[str, str] = Field(
        default_factory=dict, description="Extended resources, as requests and as limits."
    )
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    runtime_class: str | None = None
    scheduler_name: str | None = None
    tolerations: list[JsonObject] = Field(default_factory=list)
    volumes: list[JsonObject] = Field(default_factory=list)
    volume_mounts: list[JsonObject] = Field(default_factory=list)
