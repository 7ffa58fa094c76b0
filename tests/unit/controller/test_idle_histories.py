"""Recorded histories of kernels and of the use of their GPU, each judged right: idle, or not.

A history has the messages that a kernel of ipykernel publishes in this case, and the samples of the GPU. Messages go
through the record of the Jupyter server, and its reports through the service, as at work.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from jupyter_gq.client.models import ActivityReport, KernelActivity
from jupyter_gq.lab.kernels.history import NEEDED_MESSAGES, KernelRecord
from jupyter_gq.scheduling.idle.idle_rule import idle_since

from .world import BOB, World, story_settings

pytestmark = pytest.mark.asyncio

MINUTE = 60.0
#: Length of a history, and seconds between two reports. A share is idle 30 minutes after its last use.
LENGTH, EVERY = 45 * MINUTE, 15.0

#: Seconds since the start of the server, type of the message, type of its request, id of the request, content.
Message = tuple[float, str, str, str, dict[str, object]]


@dataclass(frozen=True, kw_only=True)
class History:
    """A history of 45 minutes, and what is right at its end."""

    messages: list[Message] = field(default_factory=list)
    #: Per cent of the GPU that is used at a second of the history; None = the driver does not tell.
    use: Callable[[float], int | None] = lambda _: 0
    idle: bool


def begin(at: float, request: str, kind: str = "execute_request") -> Message:
    return at, "status", kind, request, {"execution_state": "busy"}


def end(at: float, request: str, kind: str = "execute_request") -> Message:
    return at, "status", kind, request, {"execution_state": "idle"}


def begun_cell(at: float, request: str = "cell", count: int = 1) -> list[Message]:
    """A cell that runs and does not end."""
    shown = (at, "execute_input", "execute_request", request, {"code": "work()", "execution_count": count})
    return [begin(at, request), shown]


def cell(at: float, until: float, request: str = "cell", count: int = 1) -> list[Message]:
    return [*begun_cell(at, request, count), end(until, request)]


def restarted(at: float, heard: bool = True) -> list[Message]:
    """A restart of the kernel, and the question that the server asks the new process, if that answers."""
    restart = (at, "restart", "", "", {})
    question = [begin(at + 1, "asked", "kernel_info_request"), end(at + 1, "asked", "kernel_info_request")]
    return [restart, *(question if heard else [])]


def served(kind: str, start: float, stop: float, every: float, takes: float = 0.05) -> list[Message]:
    """Requests of this kind, one after another, each answered at once."""
    times = [start + number * every for number in range(int((stop - start) / every))]
    return [
        message
        for number, at in enumerate(times)
        for message in (begin(at, f"r{number}", kind), end(at + takes, f"r{number}", kind))
    ]


FIRST = cell(30, MINUTE)
WHOLE = (MINUTE, LENGTH)

HISTORIES = {
    "nobody is there": History(messages=FIRST, idle=True),
    "a cell that prints nothing runs": History(messages=begun_cell(MINUTE), idle=False),
    "a cell ended 29 minutes ago": History(messages=cell(30, 16 * MINUTE), idle=False),
    "cells that were queued run one after another": History(
        messages=[each for n in range(44) for each in cell(n * MINUTE, (n + 1) * MINUTE, f"c{n}", n + 1)], idle=False
    ),
    "a thread trains on after its cell": History(messages=FIRST, use=lambda _: 60, idle=False),
    "a thread ended its training 29 minutes ago": History(
        messages=FIRST, use=lambda at: 60 if at < 16 * MINUTE else 0, idle=False
    ),
    "a thread ended its training 31 minutes ago": History(
        messages=FIRST, use=lambda at: 60 if at < 14 * MINUTE else 0, idle=True
    ),
    "a thread draws a progress bar without the GPU": History(
        messages=[*FIRST, *[(at, "stream", "execute_request", "cell", {"text": "#"}) for at in range(70, 2700, 5)]],
        idle=True,
    ),
    "a data loader works between bursts of the GPU": History(
        messages=FIRST, use=lambda at: 80 if at % (20 * MINUTE) < 2 * EVERY else 0, idle=False
    ),
    "one burst in the whole window": History(
        messages=FIRST, use=lambda at: 2 if 20 * MINUTE <= at < 20 * MINUTE + EVERY else 0, idle=False
    ),
    "the little that an idle process does anyway": History(messages=FIRST, use=lambda _: 1, idle=True),
    "input() waits": History(messages=begun_cell(MINUTE), idle=False),
    "the debugger has stopped a cell": History(
        messages=[*begun_cell(MINUTE), *served("debug_request", *WHOLE, 10)], idle=False
    ),
    "a page is open over night and reconnects": History(
        messages=[*FIRST, *served("kernel_info_request", *WHOLE, 30), *served("comm_info_request", *WHOLE, 30)],
        idle=True,
    ),
    "a page polls the variables by silent requests": History(
        # Each request is open when a report is made, as it would be now and then.
        messages=[*FIRST, *served("execute_request", MINUTE + EVERY - 0.01, LENGTH, EVERY)],
        idle=True,
    ),
    "a long silent request works": History(messages=[*FIRST, begin(2 * MINUTE, "silent")], idle=False),
    "completions and inspections": History(
        messages=[*FIRST, *served("complete_request", *WHOLE, 10), *served("inspect_request", *WHOLE, 10)], idle=True
    ),
    "somebody moves a slider every ten minutes": History(
        messages=[*FIRST, *served("comm_msg", *WHOLE, 10 * MINUTE)], idle=False
    ),
    "the last slider was moved 31 minutes ago": History(
        messages=[*FIRST, *served("comm_msg", 2 * MINUTE, 14 * MINUTE, MINUTE)], idle=True
    ),
    "the GPU was not measured for 10 of the last 30 minutes": History(
        messages=FIRST, use=lambda at: None if 15 * MINUTE <= at < 25 * MINUTE else 0, idle=False
    ),
    "the GPU was not measured, long ago": History(
        messages=FIRST, use=lambda at: None if at < 14 * MINUTE else 0, idle=True
    ),
    "one sample is missing, and the next tells of the same seconds": History(
        messages=FIRST, use=lambda at: None if 30 * MINUTE <= at < 30 * MINUTE + EVERY else 0, idle=True
    ),
    "the GPU is not measured now": History(messages=FIRST, use=lambda at: None if at > 44 * MINUTE else 0, idle=False),
    "the kernel was never heard": History(messages=[], idle=False),
    "every other sample is missing": History(messages=FIRST, use=lambda at: None if at / EVERY % 2 else 0, idle=True),
    "every other sample is missing, and a thread trains": History(
        messages=FIRST, use=lambda at: None if at / EVERY % 2 else 60, idle=False
    ),
    "most samples are missing": History(
        messages=FIRST, use=lambda at: None if at % (2 * MINUTE) and at < LENGTH else 0, idle=False
    ),
    "a callback of a widget does not end": History(
        messages=[*FIRST, begin(2 * MINUTE, "moved", "comm_msg")], idle=False
    ),
    "two pages share the kernel, and a cell of either runs after the other's": History(
        messages=[*cell(MINUTE, 2 * MINUTE), *begun_cell(2 * MINUTE, "other", 2)], idle=False
    ),
    "the kernel was restarted 29 minutes ago, in the countdown": History(
        messages=[*FIRST, *restarted(16 * MINUTE)], idle=False
    ),
    "the kernel was restarted 31 minutes ago while its cell ran": History(
        messages=[*begun_cell(MINUTE), *restarted(13 * MINUTE)], idle=True
    ),
    "the kernel was restarted, and the new process says nothing": History(
        messages=[*FIRST, *restarted(5 * MINUTE, heard=False)], idle=False
    ),
}


class Story:
    """Bob's notebook with one kernel, which lives through a history."""

    def __init__(self, world: World) -> None:
        self.world, self.start = world, world.clock.now()
        self.record = KernelRecord(self.start)
        (self.pid,) = [pids[1] for pids in world.controller._context.pids.values()]

    async def live(self, history: History, length: float = LENGTH) -> None:
        messages = sorted(history.messages, key=lambda message: message[0])
        while (at := self.world.clock.now() - self.start) <= length:
            while messages and messages[0][0] <= at:
                self.apply(messages.pop(0))
            self.world.probe.used[self.pid] = history.use(at)
            await self.world.step(seconds=0)
            self.report()
            self.world.clock.forward(EVERY)

    def apply(self, message: Message) -> None:
        at, kind, of, request, content = message
        if kind == "restart":
            self.record.note_restart(self.start + at)
            self.record.note_question("asked")
        elif kind in NEEDED_MESSAGES:  # as the server's watch does
            date = datetime.fromtimestamp(self.start + at, UTC)
            parent = {"msg_id": request, "msg_type": of}
            self.record.apply({"header": {"msg_type": kind, "date": date}, "parent_header": parent, "content": content})

    def report(self) -> None:
        now = self.world.clock.now()
        busy = self.record.is_busy(now) if self.record.is_known else None
        kernel = KernelActivity(id="k", busy=busy, last_active=self.record.last_active)
        self.world.controller.tickets.record_activity(BOB, "", ActivityReport(at=now, kernels=[kernel]))

    def idle_for(self) -> float:
        """Return for how many seconds the share counts as unused; 0 if it is in use or that is not known."""
        workload = self.world.sql.get(self.world.notebook(BOB).id).workload
        known = next(
            each for each in self.world.controller._context.records.notebooks() if each.workload.id == workload.id
        )
        now = self.world.clock.now()
        since = idle_since(known.workload, self.world.settings.current.policy.idle, now)
        return 0.0 if since is None else now - since


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES.keys())
async def test_history_is_judged_right(world, history):
    await world.start_server(BOB, "0.25")
    await world.step(2, seconds=0)
    story = Story(world)
    await story.live(history)
    assert (story.idle_for() >= 30 * MINUTE) is history.idle


async def test_there_is_no_verdict_in_the_first_ten_minutes(world):
    await world.start_server(BOB, "0.25")
    story = Story(world)
    await story.live(HISTORIES["nobody is there"], 9 * MINUTE)
    assert story.idle_for() == 0
    await story.live(History(idle=True), 10 * MINUTE)
    assert story.idle_for() > 8 * MINUTE


@pytest.mark.parametrize(
    ("gpus", "use", "idle"), [("1", 5, True), ("1", 6, False), ("0.5", 2, True), ("0.5", 3, False)]
)
async def test_use_counts_by_the_size_of_the_share(world, gpus, use, idle):
    world.settings.current = story_settings(FixedQuota={"default": "1", "groups": {}})
    await world.start_server(BOB, gpus)
    await world.step(2, seconds=0)
    story = Story(world)
    await story.live(History(messages=FIRST, use=lambda _: use, idle=idle))
    assert (story.idle_for() >= 30 * MINUTE) is idle


async def test_times_are_settings(world):
    world.settings.current = story_settings(IdlePolicy={"after": 120, "warning": 60, "grace": 0})
    await world.start_server(BOB, "0.25")
    story = Story(world)
    await story.live(HISTORIES["nobody is there"], 4 * MINUTE)
    assert story.idle_for() >= 120
