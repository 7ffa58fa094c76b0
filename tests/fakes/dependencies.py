"""Fakes of the objects around the service: the files of jobs, the probe of devices, the settings."""

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from jupyter_gq.backends.bundles import LeftOutputs, LogName, LogSpan, require_inner_path
from jupyter_gq.controller.settings.config import Settings
from jupyter_gq.devices.probe import DeviceInfo, DeviceModes, ProbeState, ProbeStatus, Usage
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.errors import StorageFull, UnusableFile


class FakeBundles:
    """A store of files of jobs in memory."""

    @property
    def pod_files(self) -> "SharedBundles | None":
        return None

    def __init__(self, *, full: bool = False) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.packs: dict[str, bytes] = {}
        self.executed: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, str] = {}
        #: Bytes that the log of each job has lost at its beginning.
        self.dropped: dict[str, int] = {}
        #: The list of results of each job, and the content of results by job and path.
        self.listed: dict[str, dict[str, Any]] = {}
        self.brought: dict[tuple[str, str], bytes] = {}
        #: Outputs that the last run of each job has left, in portions.
        self.left: dict[str, list[list[dict[str, Any]]]] = {}
        #: Disk space of each job's files.
        self.used: dict[str, MiB] = {}
        #: Whether each job has checkpoints; nothing is known of other jobs.
        self.checkpoints: dict[str, bool] = {}
        self._full = full
        #: Why large contents cannot be stored; "" = they can.
        self.away = ""
        #: Jobs whose files the disk does not delete.
        self.stuck: set[str] = set()

    def write(self, job: str, owner: str, bundle: dict[str, Any], max_bytes: int, files: bytes = b"") -> None:
        if self._full:
            raise StorageFull("The disk is full.")
        self.kept[job] = bundle
        self.packs[job] = files

    def executed_notebook(self, job: str, owner: str) -> dict[str, Any] | None:
        return self.executed.get(job)

    def log(self, job: str, owner: str, tail: int, *, run: int, tasks: Sequence[int]) -> str | None:
        text = self.logs.get(job) if len(tasks) > 1 else self.logs.get(f"{job}/{tasks[0]}", self.logs.get(job))
        return None if text is None else text[-tail:]

    def log_span(self, log: LogName) -> LogSpan | None:
        text = self._log(log)
        return None if text is None else LogSpan(start=self.dropped.get(log.job, 0), end=len(text))

    def log_part(self, log: LogName, start: int, size: int) -> bytes:
        return (self._log(log) or b"")[start:][:size]

    def cut_log(self, log: LogName, keep: int) -> int:
        span = self.log_span(log)
        if span is None or span.kept <= keep:
            return 0
        self.dropped[log.job] = span.end - keep
        return span.kept - keep

    def _log(self, log: LogName) -> bytes | None:
        text = self.logs.get(f"{log.job}/{log.task}", self.logs.get(log.job))
        return None if text is None else text.encode()

    def results(self, job: str, owner: str, *, limit: int | None = None) -> dict[str, Any] | None:
        found = self.listed.get(job)
        if found is not None and limit is not None and len(json.dumps(found)) > limit:
            raise UnusableFile("results.json", f"it has more than {limit} bytes")
        return found

    def result_part(self, job: str, owner: str, path: str, start: int, size: int) -> bytes:
        return self.brought.get((job, require_inner_path(path)), b"")[start:][:size]

    def is_outside(self, job: str, owner: str, path: str | None, start: int) -> bool:
        return False

    def left_outputs(self, job: str, owner: str, run: int, start: int) -> LeftOutputs:
        portions = self.left.get(job, [])
        if start >= len(portions):
            return LeftOutputs(pieces=(), following=None)
        following = start + 1 if start + 1 < len(portions) else None
        return LeftOutputs(pieces=portions[start], following=following)

    def shortage(self) -> str:
        return "The disk is full." if self._full else ""

    def trouble(self) -> str:
        return self.away

    def disk_use(self, job: str) -> MiB | None:
        return self.used.get(job)

    def has_checkpoints(self, job: str, owner: str) -> bool | None:
        return self.checkpoints.get(job)

    def jobs(self) -> Collection[str]:
        return list(self.kept)

    def delete(self, job: str, owner: str) -> None:
        if job in self.stuck:
            raise RecursionError("maximum recursion depth exceeded")
        self.kept.pop(job, None)

    def withdraw(self, job: str, owner: str) -> None:
        self.delete(job, owner)


class SharedBundles(FakeBundles):
    """A store of files that runners in pods fetch and send through the service."""

    @property
    def pod_files(self) -> "SharedBundles":
        return self

    #: Nothing is kept elsewhere.
    contents = None

    def stage(self, bundle: dict[str, Any], max_bytes: int) -> str | None:
        raise AssertionError("There is no place outside the database.")

    def unstage(self, name: str) -> None:
        raise AssertionError("There is no place outside the database.")

    def bundle(self, job: str) -> dict[str, Any] | None:
        return self.kept.get(job)

    def put_log(self, log: LogName, text: str) -> None:
        self.logs[log.job] = text

    def log_end(self, log: LogName) -> int:
        return len(self.logs.get(log.job, ""))

    def append_log(self, log: LogName, start: int, text: str, most: int) -> None:
        self.logs[log.job] = self.logs.get(log.job, "")[:start] + text

    def put_results(self, job: str, report: dict[str, Any]) -> None:
        self.listed[job] = report["results"]


class FakeProbe:
    """A probe that returns the use in `used`; None there means that the driver does not tell."""

    def __init__(self) -> None:
        self.used: dict[int, int | None] = {}
        self.blind = False

    def status(self) -> ProbeStatus:
        return ProbeStatus(state=ProbeState.OK, detail="Simulated devices, for tests.")

    def devices(self) -> tuple[DeviceInfo, ...]:
        return ()

    def usage(self, device: str, pids: Sequence[int]) -> tuple[Usage, ...] | None:
        if self.blind:
            return None
        return tuple(Usage(pid=pid, memory=MiB(1024), utilisation=self.used[pid]) for pid in pids if pid in self.used)

    def free_memory(self, device: str) -> MiB | None:
        return None if self.blind else MiB(1024)

    def modes(self, device: str) -> DeviceModes:
        return DeviceModes(partitioned=False, persistent=True)

    def suspension_obstacle(self, device: str, pids: Sequence[int]) -> str | None:
        return None


class FixedSettings:
    """Settings that only the test replaces."""

    def __init__(self, settings: Settings) -> None:
        self.current = settings
        self.error: str | None = None
        self.warnings: tuple[str, ...] = ()
        self.last_good = None
        self._changed = False

    def change(self, **changes: Any) -> None:
        self.current = replace(self.current, **changes)
        self._changed = True

    async def refresh(self) -> bool:
        changed, self._changed = self._changed, False
        return changed
