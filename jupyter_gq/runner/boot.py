"""The first milliseconds of a run: read the bundle, start the kernel, then import the code that runs cells."""

import os
import sys
import traceback

from jupyter_gq.client.exit_status import DISK_FULL, RESULT_NOT_WRITTEN
from jupyter_gq.client.files.checkpoint_folder import CHECKPOINTS

from .cells.kernel import start_kernel
from .clock import now
from .files.bundle import read_bundle
from .files.continuing import EarlierJob, StoppedWhileCopying, continue_from_job
from .files.folder import RunFolder
from .files.job import Job
from .files.project import prepare_project
from .files.secrets import read_secrets
from .mask import Mask
from .problems import RunError, describe_disk_error, is_disk_full
from .processes import protect_memory
from .result import PAUSED, describe_failure
from .stopping import StopRequest


def boot(folder: RunFolder, *, last_seq: int = 0, ephemeral: bool = False, continue_from: str = "") -> int:
    """Run one task of one run of a job; return the exit status of the process.

    With `continue_from`, the id of another job of this machine, a run without checkpoints begins with a copy of those
    of that job. A stop during the copying ends the run as PAUSED.

    The status is 0, 1 for a failure, `RESULT_NOT_WRITTEN`, or `DISK_FULL` if the disk has no room for the run, which
    then has no result. No error is raised: it becomes the result of the run, with a sentence. For `last_seq` and
    `ephemeral`, see `job.Job`.
    """
    stop = StopRequest(folder.stop)
    stop.install()
    try:
        if ephemeral:
            protect_memory()  # in a pod the user's code runs as the same user
        folder.prepare()
        if continue_from:
            _copy_checkpoints(folder, continue_from, stop)
        return _start_run(folder, stop, last_seq, ephemeral)
    except StoppedWhileCopying:
        folder.write_result(PAUSED.to_document(now()))
        return 0
    except RunError as error:
        return _write_failure(folder, str(error))
    except OSError as error:
        if is_disk_full(error):  # often the work of somebody else, and soon over: the run is lost, and not the job
            return DISK_FULL  # without a word, since the log may be on the same disk
        return _write_failure(folder, describe_disk_error(error))
    except Exception as error:  # noqa: BLE001 - the last guard: the owner gets a sentence after any error
        traceback.print_exc()
        return _write_failure(folder, f"The runner itself failed ({type(error).__name__}: {error}); the log has more.")


def _copy_checkpoints(folder: RunFolder, job: str, stop: StopRequest) -> None:
    """Copy the checkpoints of another job of this machine, unless this job has some, and say so in the run's log.

    Raises `RunError` if they cannot be copied, `StoppedWhileCopying` if the run is told to stop, and `OSError` if the
    folder of this job's checkpoints cannot be listed.
    """

    def look() -> None:
        if stop.is_requested:
            raise StoppedWhileCopying

    earlier = EarlierJob(id=job, checkpoint=folder.job.parent / job / CHECKPOINTS)
    told = continue_from_job(earlier, folder.checkpoint, task=folder.task, look=look)
    if told:
        print(told, flush=True)  # noqa: T201 - standard output is the run's log


def _start_run(folder: RunFolder, stop: StopRequest, last_seq: int, ephemeral: bool) -> int:
    """Start the kernel, then import the rest of the runner and run the job; return the exit status of the process.

    The file of the token is deleted. Raises `RunError` if the bundle or the kernel cannot be used.
    """
    job_id = os.environ.get("GQ_JOB_ID") or folder.job.name
    bundle = prepare_project(folder, read_bundle(folder.job / "bundle.json"))
    secrets = read_secrets(bundle.secrets, os.environ, in_pod=ephemeral)
    job = Job(
        id=job_id,
        folder=folder,
        bundle=bundle,
        url=os.environ.get("GQ_SERVICE_URL", ""),
        token=folder.take_token(),
        stop=stop,
        last_seq=last_seq,
        ephemeral=ephemeral,
        secrets=tuple(secrets.values()),
        kernel_env={
            **secrets,
            "GQ_JOB_ID": job_id,
            "GQ_RUN_DIR": str(folder.path),
            "GQ_RESULTS_DIR": str(folder.results / "files"),
            "GQ_CHECKPOINT_DIR": os.path.realpath(folder.checkpoint),  # in a pod the folder is a link to a volume
        },
    )
    mask = Mask(job.secrets) if job.secrets else None
    kernel = start_kernel(job.bundle, folder.path, job.kernel_env, mask=mask, in_pod=ephemeral)
    try:
        # jsonschema takes rfc3987_syntax as optional; importing it costs more than the whole start of a kernel.
        sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
        from .run import run_job  # imported here: the import is slow, and the kernel boots meanwhile

        return run_job(job, kernel)
    finally:
        kernel.discard()


def _write_failure(folder: RunFolder, sentence: str) -> int:
    """Write the result of a run that failed with this sentence; return the exit status of the process.

    The status is `RESULT_NOT_WRITTEN` if the folder does not take the result: the sentence is then the last line of the
    log.
    """
    status = 1
    try:
        folder.write_result(describe_failure(sentence).to_document(now()))
    except OSError:
        status = RESULT_NOT_WRITTEN
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201 - standard error is the run's log
    return status
