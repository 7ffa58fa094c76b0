"""The server learns the run history and the activity of real kernels by listening to them."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from jupyter_client.asynchronous import AsyncKernelClient

from tests.patience import scaled


class Kernel:
    """A user's kernel and a page that is connected to it."""

    def __init__(self, serverapp):
        self.manager = serverapp.kernel_manager
        self.id = ""
        self.client: AsyncKernelClient | None = None

    async def start(self):
        self.id = await self.manager.start_kernel(kernel_name="python3", path="")
        await self.connect()

    async def connect(self):
        kernel = self.manager.get_kernel(self.id)
        self.client = kernel.client()
        self.client.start_channels()
        await self.client.wait_for_ready(timeout=scaled(120))

    async def run(self, code, **options):
        """Run to the end."""
        return await self.client.execute_interactive(
            code, timeout=scaled(120), output_hook=lambda message: None, **options
        )

    async def restart(self):
        self.client.stop_channels()
        await self.manager.restart_kernel(self.id)
        await self.connect()

    async def stop(self):
        if self.client is not None:
            self.client.stop_channels()
        if self.id in self.manager:
            await self.manager.shutdown_kernel(self.id, now=True)


@pytest.fixture
def kernel(jp_asyncio_loop, on_hub, jp_serverapp, extension):
    """Return a kernel that was started while the server listened."""
    kernel = Kernel(jp_serverapp)
    extension.watch.start()
    jp_asyncio_loop.run_until_complete(kernel.start())
    yield kernel
    jp_asyncio_loop.run_until_complete(kernel.stop())


#: The usual kernel, but what it says at its start, mostly before anybody listens, is never heard.
STARTS_UNHEARD = """
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp

publish = IPythonKernel._publish_status

def publish_later(self, status, *args, **options):
    if status != "starting":
        publish(self, status, *args, **options)

IPythonKernel._publish_status = publish_later
IPKernelApp.launch_instance()
"""


@pytest.fixture
def unheard(jp_asyncio_loop, jp_kernel_dir, on_hub, jp_serverapp, extension):
    """Return a kernel whose start was not heard and to which no page is connected."""
    spec = jp_kernel_dir / "unheard"
    spec.mkdir()
    argv = ["python", "-c", STARTS_UNHEARD, "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Unheard", "language": "python"}))
    kernel = Kernel(jp_serverapp)
    extension.watch.start()
    kernel.id = jp_asyncio_loop.run_until_complete(kernel.manager.start_kernel(kernel_name="unheard"))
    yield kernel
    jp_asyncio_loop.run_until_complete(kernel.stop())


def one(extension):
    """Return the activity of the only kernel."""
    (activity,) = extension.watch.get_activity()
    return activity


async def test_history_has_the_executions_in_run_order(kernel, extension, fetch, until):
    await kernel.run("a = 1")
    await kernel.run("import time; time.sleep(0.3)")
    await kernel.run("1 / 0", stop_on_error=False)
    await kernel.run("%nosuchmagic 3", stop_on_error=False)
    await kernel.run("a = 1")
    await until(lambda: len(extension.watch.get_history(kernel.id).cells) == 5, "five cells")
    await until(lambda: not one(extension).busy, "idle")
    status, history = await fetch("GET", "kernels", kernel.id, "history")
    assert (status, history["complete"]) == (200, True)
    cells = history["cells"]
    ran = ["a = 1", "import time; time.sleep(0.3)", "1 / 0", "%nosuchmagic 3", "a = 1"]
    assert [cell["code"] for cell in cells] == ran
    assert [cell["execution_count"] for cell in cells] == [1, 2, 3, 4, 5]
    assert [cell["failed"] for cell in cells] == [False, False, True, True, False]
    assert 0.3 <= cells[1]["seconds"] < 60


async def test_executions_have_the_cells_that_the_page_announced(kernel, until, fetch, extension):
    """The page's announcement may arrive before or after the execution."""
    announced = {"cells": [{"cell_id": "one", "source": "a = 1"}]}
    assert await fetch("POST", "kernels", kernel.id, "history", body=announced) == (
        200,
        {"cells": [], "complete": True},
    )
    await kernel.run("a = 1")
    await kernel.run("a = 2")
    await until(lambda: len(extension.watch.get_history(kernel.id).cells) == 2, "two cells")
    announced = {"cells": [{"cell_id": "two", "source": "a = 2"}]}
    _, history = await fetch("POST", "kernels", kernel.id, "history", body=announced)
    assert [(cell["cell_id"], cell["code"]) for cell in history["cells"]] == [("one", "a = 1"), ("two", "a = 2")]
    assert (await fetch("POST", "kernels", "gone", "history", body=announced))[0] == 404
    assert (await fetch("POST", "kernels", kernel.id, "history", body={"cells": 1}))[0] == 422


async def test_what_an_announced_cell_imports_is_read_ahead(kernel, until, fetch):
    """The first plan of the dialog then has not to read it."""
    folder = Path(kernel.manager.get_kernel(kernel.id)._launch_args["cwd"])
    (folder / "nets_of_ann.py").write_text("import layers_of_ann\n")
    (folder / "layers_of_ann.py").write_text("")
    opened = []
    # Python removes no audit hook, so this one stays, and notes only what it knows.
    sys.addaudithook(lambda event, given: opened.append(str(given[0])) if "of_ann.py" in str(given[:1]) else None)
    announced = {"cells": [{"cell_id": "one", "source": "import nets_of_ann"}]}
    await fetch("POST", "kernels", kernel.id, "history", body=announced)
    await until(lambda: str(folder / "layers_of_ann.py") in opened, "the modules were read")


async def test_after_a_restart_it_is_known_that_nothing_has_run(kernel, fetch, until, extension):
    await kernel.run("a = 1")
    await until(lambda: extension.watch.get_history(kernel.id).cells, "one cell")
    await kernel.restart()
    assert await fetch("GET", "kernels", kernel.id, "history") == (200, {"cells": [], "complete": True})


async def test_silent_and_unstored_requests_are_no_history(kernel, extension, until):
    await kernel.run("a = 1")
    await kernel.run("probe = 2", silent=True, store_history=False)
    await kernel.run("dir()", store_history=False)
    await kernel.run("b = 2")

    def stored():
        return [cell.code for cell in extension.watch.get_history(kernel.id).cells]

    # An unstored request is the last of the history until the next one has begun.
    await until(lambda: stored() == ["a = 1", "b = 2"], "the two stored cells")


async def test_a_restart_begins_a_new_history(kernel, extension, until):
    await kernel.run("a = 1")
    before = one(extension).last_active
    await kernel.restart()
    assert extension.watch.get_history(kernel.id).cells == ()
    await kernel.run("b = 2")
    await until(lambda: len(extension.watch.get_history(kernel.id).cells) == 1, "one cell")
    assert one(extension).last_active > before


async def test_a_kernel_that_died_and_came_back_has_a_new_history(kernel, extension, jp_serverapp, until):
    await kernel.run("a = 1")
    await until(lambda: extension.watch.get_history(kernel.id).cells, "one cell")
    kernel.client.execute("import os; os._exit(1)")
    await until(lambda: extension.watch.get_history(kernel.id).cells == (), "the restart by itself")
    kernel.client.stop_channels()
    await kernel.connect()
    await kernel.run("b = 2")
    await until(lambda: extension.watch.get_history(kernel.id).cells, "one cell")
    assert [cell.code for cell in extension.watch.get_history(kernel.id).cells] == ["b = 2"]


def waits_for(file):
    """Return a cell that runs for more than a second, until there is the file."""
    return f"import os, time\ntime.sleep(1)\nwhile not os.path.exists({str(file)!r}): time.sleep(0.01)"


async def test_a_silent_busy_cell_is_busy_until_it_ends(kernel, extension, until, tmp_path):
    await until(lambda: one(extension).busy is False, "idle")
    before = one(extension).last_active
    kernel.client.execute(waits_for(tmp_path / "go-on"))
    await until(lambda: one(extension).busy, "busy")
    await asyncio.sleep(0.3)
    assert one(extension).busy is True
    (tmp_path / "go-on").touch()
    await until(lambda: one(extension).busy is False, "idle again")
    assert one(extension).last_active >= before + 1


async def test_kernel_without_a_connection_becomes_idle(unheard, extension, until):
    started = one(extension).last_active
    await until(lambda: one(extension).busy is False, "idle")
    assert one(extension).last_active == started
    assert extension.watch.get_history(unheard.id).cells == ()


async def test_kernel_restarted_during_a_cell_becomes_idle(unheard, extension, until):
    await unheard.connect()
    unheard.client.execute("import time; time.sleep(600)")
    await until(lambda: one(extension).busy, "busy")
    unheard.client.stop_channels()
    await unheard.manager.restart_kernel(unheard.id, now=True)
    await until(lambda: one(extension).busy is False, "idle")


async def test_one_question_waits_at_a_time(unheard, extension, until):
    for _ in range(5):
        assert one(extension).busy is None
    assert len(extension.watch._questions) == 1
    await until(lambda: one(extension).busy is False and not extension.watch._questions, "idle, and no question open")


async def test_connecting_completing_and_polling_are_no_use(kernel, extension, jp_fetch, until):
    await kernel.run("a = 1")
    await until(lambda: extension.watch.get_history(kernel.id).cells, "one cell")
    await until(lambda: one(extension).busy is False, "idle")
    before = one(extension).last_active
    kernel.client.stop_channels()
    await kernel.connect()
    await kernel.client.complete("a.", reply=True, timeout=scaled(60))
    await kernel.client.inspect("a", reply=True, timeout=scaled(60))
    await jp_fetch("api", "kernels")
    await asyncio.sleep(0.2)
    assert one(extension).last_active == before
    assert one(extension).busy is False


async def test_kernel_that_ran_before_the_watch_started_is_found(on_hub, jp_serverapp, extension, until):
    kernel = Kernel(jp_serverapp)
    await kernel.start()
    try:
        extension.watch.start()
        assert extension.watch.get_history(kernel.id).cells == ()
        await until(lambda: one(extension).busy is False, "idle")
        while not extension.watch.get_history(kernel.id).cells:  # a subscription takes a moment
            await kernel.run("a = 1")
    finally:
        await kernel.stop()


async def test_first_cell_is_in_the_history_without_an_earlier_request(on_hub, jp_serverapp, extension, until):
    await extension._start_jupyter_server_extension(jp_serverapp)
    kernel = Kernel(jp_serverapp)
    await kernel.start()
    try:
        await kernel.run("first = 1")
        await until(lambda: extension.watch.get_history(kernel.id).cells, "one cell")
        assert extension.watch.get_history(kernel.id).cells[0].code == "first = 1"
    finally:
        await kernel.stop()


async def test_a_kernel_that_is_gone_is_forgotten(kernel, extension, fetch):
    await kernel.stop()
    assert extension.watch.get_activity() == []
    status, problem = await fetch("GET", "kernels", kernel.id, "history")
    assert (status, problem["code"]) == (404, "not_found")
