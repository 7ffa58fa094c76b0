"""The inputs of one run of a job. Standard library only."""

from dataclasses import dataclass, field

from jupyter_gq.runner.stopping import StopRequest

from .bundle import Bundle
from .folder import RunFolder


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job in one of its runs."""

    id: str
    folder: RunFolder
    bundle: Bundle
    #: Address of the service; empty: nothing is delivered.
    url: str
    #: Secret that authenticates the job to the service; never given to the kernel.
    token: str
    stop: StopRequest
    #: Variables added to the kernel's environment.
    kernel_env: dict[str, str]
    #: Values of the job's secrets, which no output shows.
    secrets: tuple[str, ...] = field(default=(), repr=False)
    #: Number of the last output piece that the service had when this run was started; later pieces have higher ones.
    last_seq: int = 0
    #: Whether the folder does not outlive this run; outputs that are not delivered by then are lost.
    ephemeral: bool = False
