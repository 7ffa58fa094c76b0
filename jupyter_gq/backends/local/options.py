"""The options of the local backend."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.domain.amount import MiB, MilliCpu

from .environment import KEPT_VARIABLES


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalOptions:
    """The options of the backend, which the traits of `LocalBackend` explain."""

    state_dir: Path
    command: Sequence[str]
    node_name: str
    system_users: bool = False
    env_keep: Sequence[str] = KEPT_VARIABLES
    linger_timeout: float = 10.0
    gang_grace: float = 10.0
    cpu_milli: MilliCpu | None = None
    memory: MiB | None = None
    max_processes: int = 16_384
    #: Most tasks that request no GPU, CPU or memory and run at the same time; None = any number.
    max_uncounted_tasks: int | None = None
