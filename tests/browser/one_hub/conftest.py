"""The Hub that the tests of this folder share, without a job that an earlier test left."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from jupyter_gq.demo.person import Person, ProductRefused
from jupyter_gq.demo.processes import DemoHub
from tests.browser.world import running_demo
from tests.patience import eventually

#: Both queues are for ann; a job of vision keeps what it borrows for some seconds. Jobs may have two secrets, and
#: servers have a variable of their own.
SETTINGS = """
c.TrainingQueues.queues = {
    "vision": {"quota": "0.5", "groups": ["vision"], "reclaim_min_runtime": 5},
    "nlp": {"quota": "0.5", "groups": ["nlp", "vision"]},
}
c.TrainingQueues.secrets = ["HF_TOKEN", "WANDB_API_KEY"]
c.Spawner.environment = {"OF_THE_TEST": "a variable"}
"""


@pytest.fixture(scope="package")
def shared_hub() -> Iterator[DemoHub]:
    """Run the Hub from the first test of this folder to the last one.

    See docs/decisions/0220-share-one-hub-between-tests-of-the-browser.md.
    """
    with asyncio.Runner() as runner:
        running = running_demo(epochs=10, settings=SETTINGS)
        hub = runner.run(running.__aenter__())
        try:
            yield hub
        finally:
            runner.run(running.__aexit__(None, None, None))


@pytest.fixture
def hub(shared_hub: DemoHub) -> Iterator[DemoHub]:
    """The running Hub; afterwards no job of ann waits or runs."""
    yield shared_hub
    asyncio.run(cancel_jobs(shared_hub.url))


async def cancel_jobs(url: str, user: str = "ann") -> None:
    """Cancel all jobs of a user, and wait until they have ended."""
    async with Person(url, user) as person:

        async def are_over() -> bool:
            page = await person.ask_service("GET", "jobs?limit=500")
            left = [job["id"] for job in page["jobs"] if not job["finished_at"]]
            if left:
                with contextlib.suppress(ProductRefused):  # a busy service has not answered in time: ask again
                    await person.ask_extension("POST", "cancel", {"jobs": left})
            return not left

        await eventually(are_over, "the end of all jobs that a test has left", every=0.5)
