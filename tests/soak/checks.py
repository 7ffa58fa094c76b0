"""The judgement at the end of a soak run: nothing lost, nothing doubled, nothing left, memory flat, log clean.

Every check returns sentences about what is wrong; none means that all is well.
"""

import asyncio
import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import yaml

from jupyter_gq.client.connection.http import ServiceClient, ServiceError
from jupyter_gq.client.exit_status import OUTPUTS_LOST
from jupyter_gq.client.models import JobView
from tests.patience import Deadline, eventually

from .cells import Execution, count_doubled, read_executions
from .troubles import EXPLAINED_STATUSES, Damage
from .users import Sent, Tally
from .watch import MemoryTrend, Watcher
from .world import World

FINAL = frozenset({"done", "failed", "cancelled"})
#: Seconds for the last jobs to end, without troubles.
DRAIN = 600.0
#: The most that the memory of the service may grow, in MiB an hour, once it has run for ten minutes.
MOST_GROWTH = 48.0
_JUDGED_AFTER = 600.0
_SUPERSEDED = "Another scheduler service has taken over"
#: What a service says that begins while its database is away, or while the disk is full; the Hub starts it again.
_DATABASE_AWAY = "The scheduler service cannot start. The scheduler's database"
_DISK_FULL = "The scheduler service cannot start. The disk with the database"
_EXPLAINED = (_SUPERSEDED, _DATABASE_AWAY, _DISK_FULL)
_VALUES = Path(__file__).parents[2] / "helm/jupyter-gq/values.yaml"
#: Lost runs in a row that a job survives.
_MOST_LOST_RUNS = 3


def memory_limit_mib() -> float:
    """Return the memory limit that the chart gives the service."""
    limit = yaml.safe_load(_VALUES.read_text())["service"]["resources"]["limits"]["memory"]
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi)", limit).groups()
    return float(number) * {"Mi": 1, "Gi": 1024}[unit]


@dataclass(slots=True)
class Ends:
    """How the jobs ended."""

    phases: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    pieces: int = 0
    faults: list[str] = field(default_factory=list)


async def read_ends(world: World, tally: Tally, damage: Damage) -> Ends:
    """Wait for the end of each accepted job, and check its state, its runs and its outputs."""
    ends = Ends()
    by_user: dict[str, list[Sent]] = {}
    for sent in tally.accepted:
        by_user.setdefault(sent.user, []).append(sent)
    deadline = Deadline(DRAIN)
    for user, jobs in by_user.items():
        client = await world.service_client(user)
        for sent in jobs:
            view = await _await_end(client, sent, deadline)
            if view is None:
                ends.faults.append(f"{sent.id} ({sent.kind}) of {user} did not end: {await _describe(client, sent)}")
                continue
            ends.phases[view.phase] += 1
            ends.runs += view.run
            ends.faults += _judge_phase(sent, view, damage)
            events = await _read_outputs(client, sent.id)
            ends.pieces += len(events)
            ends.faults += _judge_outputs(sent, view, events)
        ends.faults += await _judge_list(client, user, jobs)
        client.close()
    for sent in tally.sent:
        if not sent.id:
            ends.faults.append(f"{sent.key} was never accepted")
    return ends


async def _await_end(client: ServiceClient, sent: Sent, deadline: Deadline) -> JobView | None:
    """Return the job once it has ended; None at the deadline. Each job is looked at, also if others took the time."""
    while True:
        is_last = deadline.is_over()
        try:
            view = await client.job(sent.id)
        except ServiceError as error:
            if error.status == HTTPStatus.NOT_FOUND and error.problem.code != "unexpected_answer":
                return None  # the service has lost the job
            view = None  # the service or the proxy is not back yet
        if view is not None and view.phase in FINAL:
            return view
        if is_last:
            return None
        await asyncio.sleep(0.5)


async def _describe(client: ServiceClient, sent: Sent) -> str:
    try:
        view = await client.job(sent.id)
    except ServiceError as error:
        return str(error)
    return f"{view.phase}, run {view.run}: {view.sentence}"


async def _read_outputs(client: ServiceClient, job: str) -> list[dict]:
    """Return all pieces of output of a job; those of the last moment may take a while."""

    async def finished():
        page = await client.outputs(job, events[-1]["seq"] if events else 0)
        events.extend(page.events)
        return page.finished and not page.events

    events: list[dict] = []
    await eventually(finished, f"the last outputs of {job}", every=0.1)
    return events


async def _judge_list(client: ServiceClient, user: str, jobs: list[Sent]) -> Iterable[str]:
    """Compare the user's list of jobs with what was sent: the keys make each job once."""
    names: Counter[str] = Counter()
    before = None
    while True:
        page = await client.jobs(limit=500, before=before)
        names.update(job.name for job in page.jobs)
        before = page.next
        if before is None:
            break
    return compare_list(user, jobs, names)


def compare_list(user: str, jobs: list[Sent], names: Counter[str]) -> list[str]:
    """Return a sentence for each job of `jobs` that is not once among `names`, and for each other name."""
    wanted = Counter(sent.key for sent in jobs)
    return [
        f"{name} is in the list of {user} {names[name]} times, and was accepted {wanted[name]} times"
        for name in sorted(wanted | names)
        if names[name] != wanted[name]
    ]


def _judge_phase(sent: Sent, view: JobView, damage: Damage) -> list[str]:
    """Compare the end of a job with its script and with what was done to it."""
    allowed = {"failed" if sent.kind == "fails" else "done"}
    if sent.cancelled:
        allowed.add("cancelled")
    if (sent.id, view.run) in damage.lost_kernels or damage.lost_runs[sent.id] > _MOST_LOST_RUNS:
        allowed.add("failed")
    if view.phase in allowed:
        return []
    return [f"{sent.id} ({sent.kind}) of {sent.user} ended as {view.phase} in run {view.run}: {view.sentence}"]


def _judge_outputs(sent: Sent, view: JobView, events: list[dict]) -> list[str]:
    """Compare the stored output of a job with the files that its executions wrote."""
    about, faults = f"{sent.id} ({sent.kind}) of {sent.user}", []
    if _have_gaps([event["seq"] for event in events], after=_find_last_whole(events)):
        faults.append(f"the pieces of {about} have gaps or doubles")
    executions = read_executions(sent.place)
    if count_doubled(sent.place):
        faults.append(f"{about} ran twice at one time")
    for run, count in Counter(each.run for each in executions).items():
        if count > 1:
            faults.append(f"run {run} of {about} executed its cell {count} times")
    told = _read_numbers(events)
    if not _can_follow(told, executions, view.run, is_told=OUTPUTS_LOST in view.sentence):
        written = [number for each in executions for number in each.numbers]
        faults.append(f"{about} wrote {_brief(written)}, and {_brief(told)} is stored{_differ(written, told)}")
    if view.phase == "done" and not any(each.run == view.run and each.ended for each in executions):
        faults.append(f"{about} is done, and run {view.run} did not come to its end")
    return faults


def _find_last_whole(events: list[dict]) -> int:
    """Return the number of the last piece that sends all outputs of a cell again; pieces before it may be missing."""
    return max((event["seq"] for event in events if event["op"] == "set"), default=0)


def _have_gaps(numbers: list[int], after: int) -> bool:
    """Return whether numbers are out of order or doubled, or one above `after` and below the last is missing."""
    later = [number for number in numbers if number > after]
    return numbers != sorted(set(numbers)) or later != list(range(after + 1, after + 1 + len(later)))


def _can_follow(told: list[int], executions: list[Execution], last_run: int, *, is_told: bool = False) -> bool:
    """Return whether stored numbers are those of the executions, one after the other.

    An execution that was killed may lack its last ones; one that ended in a run that did not may lack them too. So may
    one whose owner was told (`is_told`): a pod that is cancelled waits only for its grace for a database that is full
    or away, since others may have a right to its GPU; see docs/explanation/kubernetes.md.
    """
    if not executions:
        return not told
    first, *rest = executions
    written = list(first.numbers)
    may_lack = is_told or not first.ended or first.run < last_run
    return any(
        told[:count] == written[:count] and _can_follow(told[count:], rest, last_run, is_told=is_told)
        for count in range(len(written), -1 if may_lack else len(written) - 1, -1)
    )


def _read_numbers(events: list[dict]) -> list[int]:
    """Return the numbers in the output that the pieces add up to."""
    text: dict[str, str] = {}
    for event in events:
        match event["op"]:
            case "append":
                text[event["cell"]] = text.get(event["cell"], "") + _text_of(event["output"])
            case "set":
                text[event["cell"]] = "".join(map(_text_of, event["outputs"]))
            case "clear":
                text[event["cell"]] = ""
    return [int(number) for each in text.values() for number in re.findall(r"^n (\d+)$", each, re.MULTILINE)]


def _text_of(output: dict) -> str:
    return str(output.get("text", "")) if output.get("name") == "stdout" else ""


def _differ(written: list[int], told: list[int]) -> str:
    """Return which numbers are missing, and which were not written so often."""
    lacking, more = (sorted((Counter(a) - Counter(b)).elements()) for a, b in ((written, told), (told, written)))
    return f"; lacking: {lacking[:20]}, more than written: {more[:20]}"


def _brief(numbers: list[int]) -> str:
    return f"{len(numbers)} numbers ({', '.join(map(str, numbers[:3]))} ... {numbers[-1] if numbers else ''})"


async def judge_rest(world: World, watcher: Watcher) -> list[str]:
    """Stop all notebook servers; then nothing of a run or a server may be left, and no device may be held."""
    await world.stop_servers()
    faults = await watcher.compare()
    with contextlib.suppress(AssertionError):
        await eventually(lambda: not world.find_left(), every=0.5)
    return faults + world.find_left()


def judge_memory(trend: MemoryTrend | None) -> list[str]:
    """Compare the memory of the service with the chart's limit and, of a long run, with the bound of its growth."""
    if trend is None:
        return ["the memory of the service was not seen often enough"]
    faults, limit = [], memory_limit_mib()
    if trend.highest_mib > limit:
        faults.append(f"the service took {trend.highest_mib:.0f} MiB; the chart's limit is {limit:.0f} MiB")
    if trend.seconds > _JUDGED_AFTER and trend.mib_per_hour > MOST_GROWTH:
        faults.append(f"the memory of the service grew by {trend.mib_per_hour:.0f} MiB an hour")
    return faults


def judge_logs(logs: Iterable[Path]) -> list[str]:
    """Return the errors in the service's log, which is the JSON among the lines of these files.

    Answers that say that the disk is full or that something is away are no errors, nor is the end of a service that was
    stopped until another one led, or that began while its database was away or the disk was full.
    """
    faults: Counter[str] = Counter()
    for line in (line for log in logs for line in log.read_text(errors="replace").splitlines()):
        record = _parse(line)
        if (
            record is None
            or record.get("status") in EXPLAINED_STATUSES
            or any(said in record.get("message", "") for said in _EXPLAINED)
        ):
            continue
        if record.get("traceback") or record.get("level") in ("ERROR", "CRITICAL"):
            last = str(record.get("traceback") or "").strip().rpartition("\n")[2]
            faults[f"the log has: {record['logger']}: {record['message']} {last}".strip()[:400]] += 1
    return [f"{sentence} ({count} times)" for sentence, count in faults.items()]


def _parse(line: str) -> dict | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "logger" in record else None
