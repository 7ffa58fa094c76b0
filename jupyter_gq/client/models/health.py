"""The health and the readiness of the service."""

from typing import Literal

from pydantic import BaseModel, Field

HealthCode = Literal[
    "ok",
    "config_refused",
    "disk_full",
    "contents_away",
    "step_failed",
    "runs_unobserved",
    "workloads_set_aside",
    "devices_missing",
]


class Health(BaseModel):
    """The health of the service, of its devices and of its configuration. Only admins are told the reasons."""

    status: Literal["ok", "degraded"]
    code: HealthCode = Field(
        default="ok",
        description="The first thing that is wrong: config_refused, disk_full, contents_away, step_failed, "
        "runs_unobserved, workloads_set_aside or devices_missing.",
    )
    version: str = Field(default="", description="For admins.")
    devices: str = Field(default="", description="For admins: real or simulated devices, and why.")
    policy: str = Field(
        default="", description='For admins: "ok", or the message of a configuration error that is being ignored.'
    )
    runs: str = Field(default="", description='For admins: "ok", or why nothing is started or ended at present.')
    limits: str = Field(
        default="",
        description='For admins: what keeps jobs within the CPU and memory that they request; "" = their pods.',
    )
    failures: list[str] = Field(default_factory=list, description="For admins: what fails and is tried again.")
    warnings: list[str] = Field(
        default_factory=list,
        description="For admins: what in the configuration is probably not meant, such as unknown users, or does not "
        "work yet, such as MPS on a GPU.",
    )
    set_aside: list[str] = Field(
        default_factory=list,
        description="For admins: the workloads that the service cannot read, decide on or show, with the reasons.",
    )

    def without_reasons(self) -> "Health":
        """Return a copy with the status and the code only, without the reasons that only admins may read."""
        return Health(status=self.status, code=self.code)


class Readiness(BaseModel):
    """The answer of a service that is ready for requests."""

    ready: Literal[True] = True
