"""One run of a task in a pod, from its token to its last word."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jupyter_gq.client.devices import Look, Patience
from jupyter_gq.runner.clock import steady
from jupyter_gq.runner.files.folder import RunFolder
from jupyter_gq.runner.problems import RunError
from jupyter_gq.runner.stopping import GRACE_VARIABLE

from .checkpoints import LAST_COPY, Checkpoints
from .devices import NobodyLooked, await_look
from .folder import lay_out, variables_of
from .log_tail import Tail
from .processes import adopt_orphans, bury, end_all, hide
from .service import NeverReached, PodService, Refused, ServiceAway, persist
from .settings import PodSettings, for_the_runner, read_settings
from .sigterm import Halt
from .termination_message import leave_word

log = logging.getLogger(__name__)

Result = dict[str, Any]
Answer = TypeVar("Answer")

#: Seconds between two looks at what nobody tells us of.
LOOK = 1.0
#: Seconds between two sendings of the log.
LOG_EVERY = 30.0
#: Seconds that one sending of the log may take; at the end, all of them.
LOG_TIMEOUT, LAST_LOG = 5.0, 30.0
#: Of the time until the kill, what is kept for the last copy of the checkpoint; and, always, for our own end.
SHARE_FOR_COPY, LONGEST_COPY, RESERVE = 1 / 3, 60.0, 1.0
#: Seconds until what is left of the job's processes is given up.
END = 5.0


def run_task(halt: Halt) -> Result:
    """Run the task to its end, whatever it is. Raises `Halted` and `RunError` while nothing of it has run."""
    settings = read_settings(os.environ)
    halt.grace = settings.grace
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(message)s")
    adopt_orphans()
    hide()
    tail = Tail()
    try:
        log.info("This is %s.", settings.name)
        return _prepared(settings, halt, tail).run()
    except Refused as error:
        raise RunError(f"The scheduler service refuses this pod: {error}") from error
    except (NeverReached, NobodyLooked) as error:
        return {"outcome": "LOST", "sentence": str(error)}
    finally:
        tail.close(END)


def _prepared(settings: PodSettings, halt: Halt, tail: Tail) -> "TaskRun":
    """Fetch everything that the run needs."""
    service = PodService(settings.url, settings.job)
    granted = _persist(settings, "the job's token", lambda: service.exchange(settings.token_file))
    if (granted.run, granted.task) != (settings.run, settings.task):
        raise RunError(
            f"The service takes this pod for task {granted.task} of run {granted.run}, but it was made for task "
            f"{settings.task} of run {settings.run}; nothing was run."
        )
    document = _persist(settings, "the job's bundle", lambda: service.bundle(granted.token, settings.bundle_limit))
    folder = RunFolder(job=settings.folder.resolve(), run=settings.run, task=settings.task)
    lay_out(folder, document, granted, settings.checkpoint)
    checkpoints = Checkpoints(settings, folder.checkpoint.resolve()) if settings.checkpoint_url else None
    if checkpoints is not None:
        checkpoints.fetch()
    _await_devices(settings, service, granted.token)
    return TaskRun(
        settings=settings,
        folder=folder,
        variables=variables_of(document),
        log=LogSender(service=service, token=granted.token, tail=tail),
        checkpoints=checkpoints,
        halt=halt,
    )


def _await_devices(settings: PodSettings, service: PodService, token: str) -> None:
    """Until somebody has looked at what this container can open, or that is not needed."""

    def ask(wait: float) -> Look | None:
        return _persist(settings, "a word on the job's devices", lambda: service.devices(token, wait))

    await_look(ask, Patience(wait=settings.devices_wait, longest=settings.devices_longest))


def _persist(settings: PodSettings, what: str, ask: Callable[[], Answer]) -> Answer:
    return persist(what, ask, settings.patience, settings.settle)


@dataclass(kw_only=True, slots=True)
class LogSender:
    """Sends the end of the log now and then."""

    service: PodService
    #: Not to be logged.
    token: str = field(repr=False)
    tail: Tail
    _sent: int = 0
    _due: float = 0.0

    def look(self) -> None:
        """Send it when it is time and there is something new; a failure does not matter."""
        if steady() >= self._due and self.tail.size != self._sent:
            self.send(LOG_TIMEOUT)

    def send(self, timeout: float) -> bool:
        """Send it now; False when the service did not take it and may later."""
        self._due = steady() + LOG_EVERY
        size = self.tail.size
        try:
            self.service.put_log(self.token, self.tail.text(), timeout)
        except ServiceAway:
            return False
        except Refused as error:
            log.info("The service does not want this log: %s", error)
        self._sent = size
        return True


@dataclass(kw_only=True, slots=True)
class TaskRun:
    """The runner's process, and what goes on around it."""

    settings: PodSettings
    folder: RunFolder
    #: From the notebook server's environment.
    variables: dict[str, str]
    log: LogSender
    checkpoints: Checkpoints | None
    halt: Halt

    def run(self) -> Result:
        """Run to the end; what it said is returned once everything else is done."""
        self.halt.defer()
        runner = self._start()
        self.halt.tell(runner.pid)
        overdue = self._watch(runner)
        self.halt.nobody()
        result = self._result(runner, overdue)
        leave_word(self.settings.termination_log, result)  # what follows may be cut short
        if not end_all(END):
            log.warning("Some processes of the job cannot be ended.")
        if self.checkpoints is not None:
            told = self.checkpoints.finish(lambda: self._left(LAST_COPY))
            if told:
                log.warning(told)
        self._send_log()
        return result

    def _start(self) -> "subprocess.Popen[bytes]":
        settings = self.settings
        environment = for_the_runner({**os.environ, **self.variables})
        environment[GRACE_VARIABLE] = f"{max(1.0, settings.grace - self._kept_back()):g}"
        arguments = ["--run", str(settings.run), "--task", str(settings.task), "--fleeting"]
        return subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-P", "-m", "jupyter_gq.runner", str(self.folder.job), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            umask=0o077,
        )

    def _watch(self, runner: "subprocess.Popen[bytes]") -> bool:
        """Wait for the runner; True when it did not end in its time and was killed."""
        overdue = False
        while runner.poll() is None:
            self.halt.wait(LOOK)
            helpers = () if self.checkpoints is None else self.checkpoints.processes
            bury([runner, *helpers])
            if self.halt.deadline is not None and steady() >= self.halt.deadline - self._kept_back() + RESERVE / 2:
                overdue = runner.poll() is None
                runner.kill()
                runner.wait()
            if not self.halt.asked:  # from then on no time is spent on a service that may not answer
                self.log.look()
            if self.checkpoints is not None:
                self.checkpoints.look()
        return overdue

    def _kept_back(self) -> float:
        """Seconds before the kill that the runner does not get."""
        copying = min(LONGEST_COPY, SHARE_FOR_COPY * self.settings.grace) if self.checkpoints is not None else 0.0
        return min(RESERVE + copying, self.settings.grace / 2)

    def _left(self, most: float) -> float:
        """Seconds that something may take now."""
        if self.halt.deadline is None:
            return most
        return min(most, self.halt.deadline - RESERVE - steady())

    def _result(self, runner: "subprocess.Popen[bytes]", overdue: bool) -> Result:
        try:
            said = json.loads((self.folder.path / "result.json").read_text(encoding="utf-8"))
            return {"outcome": str(said["outcome"]), "sentence": str(said["sentence"])}
        except (OSError, ValueError, KeyError, TypeError):
            pass  # it said nothing
        result = self._silent_end(runner.returncode, overdue)
        log.info("%s %s", result["outcome"], result["sentence"])
        return result

    def _silent_end(self, code: int, overdue: bool) -> Result:
        """The end of a runner that wrote no result."""
        if overdue:
            return {"outcome": "KILLED", "sentence": "It was told to end and did not do so in its time."}
        if self.halt.asked and code == -signal.SIGTERM:
            return {"outcome": "PAUSED", "sentence": "It was told to end before it had begun."}
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        if code == -signal.SIGKILL:
            how += ", most often because the pod's memory limit was reached"
        return {"outcome": "LOST", "sentence": f"The runner vanished without a word ({how})."}

    def _send_log(self) -> None:
        until = steady() + self._left(LAST_LOG)
        while not self.log.send(max(0.5, min(LOG_TIMEOUT, until - steady()))) and steady() < until:
            self.halt.wait(min(LOOK, until - steady()))
