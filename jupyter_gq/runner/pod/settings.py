"""What a pod is told by its environment. Standard library only."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.client.variables import matches
from jupyter_gq.runner.problems import RunError
from jupyter_gq.runner.stopping import DEFAULT_GRACE, GRACE_VARIABLE

#: Bytes that bundle and earlier outputs may have together, unless GQ_BUNDLE_LIMIT says otherwise.
BUNDLE_LIMIT = 512 * 1024 * 1024
#: Seconds for which a service that is away is waited for at the start, unless GQ_PATIENCE says otherwise.
PATIENCE = 600.0
#: Seconds in which a refusal may turn out to be none (the service may hear of this pod later than we start), unless
#: GQ_SETTLE says otherwise.
SETTLE = 30.0
#: Seconds in which somebody should have looked at the devices of this container, unless GQ_DEVICES_WAIT says otherwise;
#: and, where nothing may begin before that, unless GQ_DEVICES_LONGEST says otherwise.
DEVICES_WAIT, DEVICES_LONGEST = 20.0, 120.0
#: Seconds between two looks for a new checkpoint, unless GQ_CHECKPOINT_EVERY says otherwise.
CHECKPOINT_EVERY = 60.0
#: For process 1 alone: of no use to the user's code, or secret.
_OURS = (
    "GQ_RUN",
    "GQ_TASK",
    "GQ_TOKEN_FILE",
    "GQ_JOB_DIR",
    "GQ_TERMINATION_LOG",
    "GQ_CHECKPOINT_*",
    "GQ_BUNDLE_LIMIT",
    "GQ_PATIENCE",
    "GQ_SETTLE",
    "GQ_DEVICES_*",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PodSettings:
    """One task of one run of a job, as the pod's manifest says it."""

    job: str
    run: int
    task: int
    #: Address of the service with its prefix.
    url: str
    #: Where Kubernetes projects the pod's token.
    token_file: Path
    #: Folder in which the job's files are laid out.
    folder: Path
    #: Where the result is left for whoever looks at the pod; None: nowhere.
    termination_log: Path | None
    #: Volume for checkpoints; None: a folder among the job's files.
    checkpoint: Path | None
    #: Where checkpoints are copied to; "": nowhere. It may hold credentials.
    checkpoint_url: str
    checkpoint_every: float
    #: Seconds from SIGTERM until the pod is killed.
    grace: float
    bundle_limit: int
    patience: float
    settle: float
    devices_wait: float
    devices_longest: float

    @property
    def name(self) -> str:
        """For the log."""
        return f"task {self.task} of run {self.run} of {self.job}"


def read_settings(environ: Mapping[str, str]) -> PodSettings:
    """Raise `RunError` with a sentence that names what is missing."""
    missing = [name for name in ("GQ_JOB_ID", "GQ_RUN", "GQ_SERVICE_URL", "GQ_TOKEN_FILE") if not environ.get(name)]
    if missing:
        raise RunError(f"This pod was made without {', '.join(missing)} in its environment, so nothing was run.")
    return PodSettings(
        job=environ["GQ_JOB_ID"],
        run=int(_number(environ, "GQ_RUN", 0)),
        task=int(_number(environ, "GQ_TASK", 0)),
        url=environ["GQ_SERVICE_URL"],
        token_file=Path(environ["GQ_TOKEN_FILE"]),
        folder=Path(environ.get("GQ_JOB_DIR") or "/gq/job"),
        termination_log=_path(environ, "GQ_TERMINATION_LOG"),
        checkpoint=_path(environ, "GQ_CHECKPOINT_DIR"),
        checkpoint_url=environ.get("GQ_CHECKPOINT_URL", ""),
        checkpoint_every=_number(environ, "GQ_CHECKPOINT_EVERY", CHECKPOINT_EVERY),
        grace=max(1.0, _number(environ, GRACE_VARIABLE, DEFAULT_GRACE)),
        bundle_limit=int(_number(environ, "GQ_BUNDLE_LIMIT", BUNDLE_LIMIT)),
        patience=_number(environ, "GQ_PATIENCE", PATIENCE),
        settle=_number(environ, "GQ_SETTLE", SETTLE),
        devices_wait=_number(environ, "GQ_DEVICES_WAIT", DEVICES_WAIT),
        devices_longest=_number(environ, "GQ_DEVICES_LONGEST", DEVICES_LONGEST),
    )


def for_the_runner(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what is for process 1 alone."""
    return {name: value for name, value in environ.items() if not matches(name, _OURS)}


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(environ.get(name) or default)
    except ValueError as error:
        raise RunError(f"{name} must be a number, not {environ[name][:40]!r}.") from error


def _path(environ: Mapping[str, str], name: str) -> Path | None:
    return Path(environ[name]) if environ.get(name) else None
