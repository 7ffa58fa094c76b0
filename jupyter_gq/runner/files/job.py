"""What one run of a job needs to know. Standard library only."""

from dataclasses import dataclass

from jupyter_gq.runner.stopping import StopRequest

from .bundle import Bundle
from .folder import RunFolder


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job, in one of its runs."""

    id: str
    folder: RunFolder
    bundle: Bundle
    #: Address of the service; empty: nothing is delivered.
    url: str
    #: Secret of the job towards the service; never given to the kernel.
    token: str
    stop: StopRequest
    #: Added to the kernel's environment.
    kernel_env: dict[str, str]
    #: The folder does not outlive this run: what is not delivered when it ends is lost.
    fleeting: bool = False
