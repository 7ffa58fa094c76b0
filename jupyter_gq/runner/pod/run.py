"""The run of a task in a pod, from the exchange of its token to its result."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from jupyter_gq.client.exit_status import DISK_FULL, NO_ROOM, RESULT_NOT_WRITTEN, explain_unwritten_result
from jupyter_gq.client.files.user_files import SMALL_FILE, read_json
from jupyter_gq.client.pods.device_check import CheckTimeouts, DeviceCheckResult
from jupyter_gq.domain.errors import UnusableFile
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.runner.clock import monotonic
from jupyter_gq.runner.files.bundle import DEFAULT_RESULT_BYTES
from jupyter_gq.runner.files.continuing import EarlierJob, continue_from_job
from jupyter_gq.runner.files.folder import RunFolder
from jupyter_gq.runner.mask import Mask
from jupyter_gq.runner.problems import RunError
from jupyter_gq.runner.processes import become_subreaper, kill_descendants, protect_memory, reap_children
from jupyter_gq.runner.stopping import GRACE_VARIABLE

from .checkpoints import LAST_COPY_TIMEOUT, Checkpoints
from .device_check import DevicesNotChecked, await_device_check
from .folder import merge_environment, read_secret_values, read_variables, write_files, write_job_files
from .log_sender import LogSender
from .log_tail import LogTail
from .results import ResultsUpload, RetriedResults
from .service import PodService, RequestRefused, RetriesExhausted, retry_until_answered
from .settings import PodSettings, read_settings, remove_pod_variables
from .sigterm import SigtermHandler
from .size_file import SizeFile
from .termination_message import write_termination_message

log = logging.getLogger(__name__)

Result = JsonObject
Answer = TypeVar("Answer")

#: Seconds between two checks of everything that sends no signal.
POLL_INTERVAL = 1.0
#: Seconds that all attempts to send the log at the end may take together.
LAST_LOG_TIMEOUT = 30.0
#: Seconds that the upload of what the job brings back may take.
RESULTS_TIMEOUT = 1800.0
#: Part of the grace period that is reserved for the last copy of the checkpoint, and its maximum in seconds.
COPY_FRACTION, MAX_COPY_SECONDS = 1 / 3, 60.0
#: Seconds of the grace period that are reserved for the end of process 1.
END_RESERVE = 1.5
#: Seconds until remaining processes of the job are given up.
END_TIMEOUT = 5.0


def run_task(sigterm: SigtermHandler) -> Result:
    """Run the task until it ends; return its outcome and sentence.

    The outcome is LOST without a start if the service, the checkpoints or the device check could not be reached in
    time. Raises `StoppedBeforeStart` or `RunError` if the task must not or cannot start.
    """
    settings = read_settings(os.environ)
    sigterm.grace = settings.grace
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(message)s")
    become_subreaper()
    protect_memory()
    tail = LogTail()
    try:
        log.info("This is %s.", settings.name)
        return _prepare_run(settings, sigterm, tail).run()
    except RequestRefused as error:
        raise RunError(f"The scheduler service refuses this pod: {error}") from error
    except (RetriesExhausted, DevicesNotChecked) as error:
        return {"outcome": "LOST", "sentence": str(error)}
    finally:
        tail.close(END_TIMEOUT)


def _prepare_run(settings: PodSettings, sigterm: SigtermHandler, tail: LogTail) -> "TaskRun":
    """Fetch the token, the bundle and the checkpoints, write the files, and await the device check; return the run.

    Raises `RunError` if the job cannot run in this pod, and `RequestRefused` if the service refuses. Raises
    `RetriesExhausted` if the service or the checkpoints cannot be reached, and `DevicesNotChecked`.
    """
    service = PodService(settings.url, settings.job)
    granted = _retry(settings, "the job's token", lambda: service.exchange_token(settings.token_file))
    if (granted.run, granted.task) != (settings.run, settings.task):
        raise RunError(
            f"The service takes this pod for task {granted.task} of run {granted.run}, but the pod was made for task "
            f"{settings.task} of run {settings.run}; nothing was run."
        )
    document = _retry(settings, "the job's bundle", lambda: service.fetch_bundle(granted.token, settings.bundle_limit))
    tail.unsent.start = granted.log_start
    folder = RunFolder(job=settings.folder.resolve(), run=settings.run, task=settings.task)
    write_job_files(folder, document, granted, settings.checkpoint)
    write_files(
        folder,
        document,
        lambda start: _retry(settings, "the job's files", lambda: service.fetch_files(granted.token, start)),
    )
    checkpoints = _lay_out_checkpoints(settings, folder.checkpoint.resolve())
    size = None
    if settings.size_file is not None:
        size = SizeFile(service=service, token=granted.token, path=settings.size_file)
        _retry(settings, "the number of the job's tasks", size.fetch)
    _await_device_check(settings, service, granted.token)
    return TaskRun(
        settings=settings,
        folder=folder,
        variables=read_variables(document),
        result_limit=int(document.get("max_result_bytes", DEFAULT_RESULT_BYTES)),
        log=LogSender(service=service, token=granted.token, tail=tail, mask=Mask(read_secret_values(document))),
        checkpoints=checkpoints,
        size=size,
        sigterm=sigterm,
    )


def _lay_out_checkpoints(settings: PodSettings, folder: Path) -> Checkpoints | None:
    """Fill the folder with the checkpoints to begin with; return what copies it to the URL, or None without a URL.

    Checkpoints of earlier runs come first, then those of the job from which this one continues. On a volume, task 0
    copies these, and the other tasks wait until it has. Their wait has no timeout: SIGTERM ends it.

    Raises `RunError` if the checkpoints can never be had, `RetriesExhausted` if they could not be fetched now, and
    `OSError` if the folder cannot be listed.
    """
    if settings.continue_dir is not None:
        earlier = EarlierJob(id=settings.continue_from, checkpoint=settings.continue_dir)
        told = continue_from_job(earlier, folder, task=settings.task, look=lambda: None)
        if told:
            log.info(told)
    if not settings.checkpoint_url:
        if settings.continue_from and settings.continue_dir is None:
            raise RunError(
                f"This job continues from {settings.continue_from}, but no checkpoints are kept here any more, so "
                "nothing was run. Ask your administrator for a place of checkpoints."
            )
        return None
    checkpoints = Checkpoints(settings, folder)
    checkpoints.fetch()
    return checkpoints


def _await_device_check(settings: PodSettings, service: PodService, token: str) -> None:
    """Wait until the devices of this container were checked, or no check is needed.

    Raises `RunError` if they are wrong, and `DevicesNotChecked` if a required check takes too long. Raises
    `RequestRefused` or `RetriesExhausted` if the service refuses or is away.
    """

    def ask(wait: float) -> DeviceCheckResult | None:
        return _retry(settings, "the check of the job's devices", lambda: service.check_devices(token, wait))

    await_device_check(ask, CheckTimeouts(wait=settings.devices_wait, longest=settings.devices_longest))


def _retry(settings: PodSettings, what: str, ask: Callable[[], Answer]) -> Answer:
    return retry_until_answered(what, ask, settings.service_timeout, settings.refusal_timeout)


@dataclass(kw_only=True, slots=True)
class TaskRun:
    """The runner's process with the log, the checkpoints and the signals around it."""

    settings: PodSettings
    folder: RunFolder
    #: Variables from the notebook server's environment.
    variables: dict[str, str]
    #: Most bytes of what the job brings back.
    result_limit: int
    log: LogSender
    checkpoints: Checkpoints | None
    #: None: the number of the job's tasks does not change.
    size: SizeFile | None
    sigterm: SigtermHandler

    def run(self) -> Result:
        """Run the runner until it ends, write the result, kill remaining processes, send checkpoint, results and log.

        Returns the result. SIGTERM is passed on to the runner.
        """
        self.sigterm.defer_signals()
        runner = self._start()
        self.sigterm.forward_to(runner.pid)
        overdue = self._watch(runner)
        self.sigterm.stop_forwarding()
        result = self._result(runner, overdue)
        write_termination_message(self.settings.termination_log, result)  # written early: a kill may cut the rest short
        if not kill_descendants(END_TIMEOUT):
            log.warning("Some processes of the job cannot be killed.")
        if self.checkpoints is not None:
            failure = self.checkpoints.finish(lambda: self._limit_to_deadline(LAST_COPY_TIMEOUT))
            if failure:
                log.warning(failure)
        result = self._send_results(result)
        self._send_last_log()
        return result

    def _send_results(self, result: Result) -> Result:
        """Send the variables and files that the job brings back; return the result of the run.

        If the list of results cannot be sent, everything is lost. The result of a successful run then has a sentence
        that says so, unless it has another sentence. Tasks other than task 0 send nothing. After a request to stop, the
        time for sending is what is left of the grace period.
        """
        if self.settings.task != 0:
            return result
        end = monotonic() + RESULTS_TIMEOUT

        def seconds_left() -> float:
            return self._limit_to_deadline(end - monotonic())

        def timeout() -> float:
            return min(self.settings.service_timeout, seconds_left())

        service = RetriedResults(service=self.log.service, token=self.log.token, timeout=timeout)
        try:
            ResultsUpload(service, self.result_limit, seconds_left).send(self.folder)
        except (RequestRefused, RetriesExhausted, UnusableFile) as error:
            log.warning("What the job brings back is lost: %s", error)
            if result["outcome"] == "SUCCEEDED" and not result["sentence"]:
                result = {**result, "sentence": f"The cells ran, but what the job brings back is lost: {error}"}
                write_termination_message(self.settings.termination_log, result)
        return result

    def _start(self) -> "subprocess.Popen[bytes]":
        """Start the runner and return its process.

        The runner does not get the variables of process 1, and has a shorter grace period than the pod.
        """
        settings = self.settings
        environment = remove_pod_variables(merge_environment(os.environ, self.variables))
        environment[GRACE_VARIABLE] = f"{max(1.0, settings.grace - self._reserved_seconds()):g}"
        arguments = ["--run", str(settings.run), "--task", str(settings.task), "--ephemeral"]
        return subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-P", "-m", "jupyter_gq.runner", str(self.folder.job), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            umask=0o077,
        )

    def _watch(self, runner: "subprocess.Popen[bytes]") -> bool:
        """Wait until the runner has ended, and send logs and checkpoints meanwhile.

        Returns True if the runner did not end in time after a stop and was killed.
        """
        overdue = False
        while runner.poll() is None:
            self.sigterm.wait(POLL_INTERVAL)
            children = () if self.checkpoints is None else self.checkpoints.processes
            reap_children([runner, *children])
            if self._is_overdue():
                overdue = runner.poll() is None
                runner.kill()
                runner.wait()
            if not self.sigterm.is_requested:  # after a stop no time is spent on a service that may not answer
                self.log.send_if_due()
            if self.checkpoints is not None:
                self.checkpoints.poll()
            if self.size is not None:
                self.size.poll(is_stopped=self.sigterm.is_requested)
        return overdue

    def _is_overdue(self) -> bool:
        """Return whether the runner should have ended by now after a stop; False if no stop was requested."""
        if self.sigterm.deadline is None:
            return False
        return monotonic() >= self.sigterm.deadline - self._reserved_seconds() + END_RESERVE / 2

    def _reserved_seconds(self) -> float:
        """Return the seconds of the grace period that process 1 keeps for itself after the runner's end."""
        copying = min(MAX_COPY_SECONDS, COPY_FRACTION * self.settings.grace) if self.checkpoints is not None else 0.0
        return min(END_RESERVE + copying, self.settings.grace / 2)

    def _limit_to_deadline(self, seconds: float) -> float:
        """Return `seconds`, or fewer after a stop: the seconds until 1.5 s before the kill, which may be negative."""
        if self.sigterm.deadline is None:
            return seconds
        return min(seconds, self.sigterm.deadline - END_RESERVE - monotonic())

    def _result(self, runner: "subprocess.Popen[bytes]", overdue: bool) -> Result:
        """Return the result that the runner wrote, or one that explains why there is none."""
        try:
            said = read_json(self.folder.path / "result.json", limit=SMALL_FILE) or {}
            return {"outcome": str(said["outcome"]), "sentence": str(said["sentence"])}
        except (UnusableFile, KeyError):
            pass  # the runner wrote no result
        result = self._explain_missing_result(runner.returncode, overdue)
        log.info("%s %s", result["outcome"], result["sentence"])
        return result

    def _explain_missing_result(self, code: int, overdue: bool) -> Result:
        """Return the result for a runner that wrote none.

        The outcome is KILLED if `overdue`, PAUSED if the runner died of a SIGTERM that was requested, FAILED if the
        folder did not take the result, otherwise LOST. `code` is the runner's exit code.
        """
        if overdue:
            return {"outcome": "KILLED", "sentence": "The job was told to stop and did not end in time."}
        if self.sigterm.is_requested and code == -signal.SIGTERM:
            return {"outcome": "PAUSED", "sentence": "The job was told to stop before it had started."}
        if code == RESULT_NOT_WRITTEN:
            return {"outcome": "FAILED", "sentence": explain_unwritten_result(self.log.tail.text())}
        if code == DISK_FULL:
            return {"outcome": "LOST", "sentence": NO_ROOM}
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        if code == -signal.SIGKILL:
            how += ", most often because the pod's memory limit was reached"
        return {"outcome": "LOST", "sentence": f"The runner ended without a result ({how})."}

    def _send_last_log(self) -> None:
        until = monotonic() + self._limit_to_deadline(LAST_LOG_TIMEOUT)
        while not self.log.send_last(until) and monotonic() < until:
            self.sigterm.wait(min(POLL_INTERVAL, until - monotonic()))
