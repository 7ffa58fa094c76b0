"""The settings of a pod, from its environment. Standard library only."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.client.environment.variables import matches
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.runner.problems import RunError
from jupyter_gq.runner.stopping import DEFAULT_GRACE, GRACE_VARIABLE

#: Default of GQ_BUNDLE_LIMIT: bytes that the bundle and the earlier outputs may have together.
BUNDLE_LIMIT = 512 * 1024 * 1024
#: Default of GQ_SERVICE_TIMEOUT: seconds to wait at the start for a service that cannot be reached.
SERVICE_TIMEOUT = 600.0
#: Default of GQ_REFUSAL_TIMEOUT: seconds after which a refusal is final; the service may learn of the pod late.
REFUSAL_TIMEOUT = 30.0
#: Defaults of GQ_DEVICES_WAIT and GQ_DEVICES_LONGEST: seconds to wait for the device check, if it is not required and
#: if it is.
DEVICES_WAIT, DEVICES_LONGEST = 20.0, 120.0
#: Default of GQ_CHECKPOINT_EVERY: seconds between two searches for changed checkpoints.
CHECKPOINT_EVERY = 60.0
#: Variables of process 1 alone: useless to the user's code, or secret.
_POD_ONLY_VARIABLES = (
    "GQ_RUN",
    "GQ_TASK",
    "GQ_TOKEN_FILE",
    "GQ_JOB_DIR",
    "GQ_TERMINATION_LOG",
    "GQ_CHECKPOINT_*",
    "GQ_CONTINUE_*",
    "GQ_BUNDLE_LIMIT",
    "GQ_SERVICE_TIMEOUT",
    "GQ_REFUSAL_TIMEOUT",
    "GQ_DEVICES_*",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PodSettings:
    """The settings of one task of one run of a job, from the pod's manifest."""

    job: str
    run: int
    task: int
    #: URL of the service with its prefix.
    url: str
    #: File into which Kubernetes projects the pod's token.
    token_file: Path
    #: Folder of the job's files.
    folder: Path
    #: File of the termination message; None: none is written.
    termination_log: Path | None
    #: Volume for checkpoints; None: a folder among the job's files.
    checkpoint: Path | None
    #: URL to which checkpoints are copied, perhaps with credentials; "": they are not copied.
    checkpoint_url: str
    #: Seconds between two searches for changed checkpoints.
    checkpoint_every: float
    #: Seconds from SIGTERM until the pod is killed.
    grace: float
    bundle_limit: int
    service_timeout: float
    refusal_timeout: float
    devices_wait: float
    devices_longest: float
    #: File that tells the code of the job which tasks there are; None: their number does not change.
    size_file: Path | None = None
    #: Id of the job with a copy of whose checkpoints this one begins; "" = none.
    continue_from: str = ""
    #: Folder of the volume with the checkpoints of that job; None: they are at the URL.
    continue_dir: Path | None = None

    @property
    def name(self) -> str:
        """The name of the task for the log, such as "task 0 of run 1 of job-7"."""
        return f"task {self.task} of run {self.run} of {self.job}"


def read_settings(environ: Mapping[str, str]) -> PodSettings:
    """Return the settings in these variables; raise `RunError` that names missing or malformed variables."""
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
        service_timeout=_number(environ, "GQ_SERVICE_TIMEOUT", SERVICE_TIMEOUT),
        refusal_timeout=_number(environ, "GQ_REFUSAL_TIMEOUT", REFUSAL_TIMEOUT),
        devices_wait=_number(environ, "GQ_DEVICES_WAIT", DEVICES_WAIT),
        devices_longest=_number(environ, "GQ_DEVICES_LONGEST", DEVICES_LONGEST),
        size_file=_path(environ, "GQ_SIZE_FILE"),
        continue_from=environ.get("GQ_CONTINUE_FROM", ""),
        continue_dir=_path(environ, "GQ_CONTINUE_DIR"),
    )


def remove_pod_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those that only process 1 needs."""
    return {name: value for name, value in environ.items() if not matches(name, _POD_ONLY_VARIABLES)}


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(environ.get(name) or default)
    except ValueError as error:
        raise RunError(f"{name} must be a number, not {quoted(environ[name])}.") from error


def _path(environ: Mapping[str, str], name: str) -> Path | None:
    return Path(environ[name]) if environ.get(name) else None
