"""The tasks of a page: how long it answers no click while it computes."""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from playwright.async_api import Page


@dataclass(frozen=True, kw_only=True, slots=True)
class Tasks:
    """Milliseconds of processor time of each task of a page; a busy machine makes them little longer."""

    cpu: list[float] = field(default_factory=list)

    @property
    def longest(self) -> float:
        """The longest task; 0 if there was none."""
        return max(self.cpu, default=0.0)


@contextlib.asynccontextmanager
async def watched_tasks(page: Page) -> AsyncIterator[Tasks]:
    """Record what the page does within the block; the tasks are known after it."""
    browser = page.context.browser
    assert browser is not None
    tasks = Tasks()
    await browser.start_tracing(categories=["toplevel"])
    yield tasks
    events = json.loads(await browser.stop_tracing())["traceEvents"]
    pages = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks.cpu.extend(event.get("tdur", 0) / 1000 for event in events if (event["pid"], event["tid"]) in pages)
    assert any(tasks.cpu), "the trace shows no work of the page"
