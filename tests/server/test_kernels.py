"""What the server learns of real kernels by listening to them: run history, busy and idle."""

import asyncio

import pytest
from jupyter_client.asynchronous import AsyncKernelClient


class Kernel:
    """A user's kernel and a page that is connected to it."""

    def __init__(self, serverapp):
        self.manager = serverapp.kernel_manager
        self.id = ""
        self.client: AsyncKernelClient | None = None

    async def start(self):
        self.id = await self.manager.start_kernel(kernel_name="python3")
        await self.connect()

    async def connect(self):
        kernel = self.manager.get_kernel(self.id)
        self.client = kernel.client()
        self.client.start_channels()
        await self.client.wait_for_ready(timeout=30)

    async def run(self, code, **options):
        """Run to the end."""
        return await self.client.execute_interactive(code, timeout=30, output_hook=lambda message: None, **options)

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
    """A kernel that was started while the server listened."""
    kernel = Kernel(jp_serverapp)
    extension.watch.start()
    jp_asyncio_loop.run_until_complete(kernel.start())
    yield kernel
    jp_asyncio_loop.run_until_complete(kernel.stop())


def one(extension):
    """The activity of the only kernel."""
    (activity,) = extension.watch.activity()
    return activity


async def test_the_history_is_what_ran_in_run_order(kernel, extension, fetch, until):
    await kernel.run("a = 1")
    await kernel.run("import time; time.sleep(0.3)")
    await kernel.run("1 / 0", stop_on_error=False)
    await kernel.run("a = 1")
    await until(lambda: not one(extension).busy, "idle")
    status, cells = await fetch("GET", "kernels", kernel.id, "history")
    assert status == 200
    assert [cell["code"] for cell in cells] == ["a = 1", "import time; time.sleep(0.3)", "1 / 0", "a = 1"]
    assert [cell["execution_count"] for cell in cells] == [1, 2, 3, 4]
    assert [cell["failed"] for cell in cells] == [False, False, True, False]
    assert 0.3 <= cells[1]["seconds"] < 3


async def test_silent_and_unstored_requests_are_no_history(kernel, extension, until):
    await kernel.run("a = 1")
    await kernel.run("probe = 2", silent=True, store_history=False)
    await kernel.run("dir()", store_history=False)
    await kernel.run("b = 2")
    await until(lambda: len(extension.watch.history(kernel.id)) == 2, "two cells")
    assert [cell.code for cell in extension.watch.history(kernel.id)] == ["a = 1", "b = 2"]


async def test_a_restart_begins_a_new_history(kernel, extension, until):
    await kernel.run("a = 1")
    before = one(extension).last_active
    await kernel.restart()
    assert extension.watch.history(kernel.id) == ()
    await kernel.run("b = 2")
    await until(lambda: len(extension.watch.history(kernel.id)) == 1, "one cell")
    assert one(extension).last_active > before


async def test_a_kernel_that_died_and_came_back_has_a_new_history(kernel, extension, jp_serverapp, until):
    await kernel.run("a = 1")
    kernel.client.execute("import os; os._exit(1)")
    await until(lambda: extension.watch.history(kernel.id) == (), "the restart by itself")
    kernel.client.stop_channels()
    await kernel.connect()
    await kernel.run("b = 2")
    await until(lambda: extension.watch.history(kernel.id), "one cell")
    assert [cell.code for cell in extension.watch.history(kernel.id)] == ["b = 2"]


async def test_a_silent_busy_cell_is_busy_until_it_ends(kernel, extension, until):
    await until(lambda: one(extension).busy is False, "idle")
    before = one(extension).last_active
    kernel.client.execute("import time; time.sleep(1)")
    await until(lambda: one(extension).busy, "busy")
    await asyncio.sleep(0.3)
    assert one(extension).busy is True
    await until(lambda: one(extension).busy is False, "idle again")
    assert one(extension).last_active >= before + 1


async def test_connecting_completing_and_polling_are_no_use(kernel, extension, jp_fetch, until):
    await kernel.run("a = 1")
    await until(lambda: one(extension).busy is False, "idle")
    before = one(extension).last_active
    kernel.client.stop_channels()
    await kernel.connect()
    await kernel.client.complete("a.", reply=True, timeout=10)
    await kernel.client.inspect("a", reply=True, timeout=10)
    await jp_fetch("api", "kernels")
    await asyncio.sleep(0.2)
    assert one(extension).last_active == before
    assert one(extension).busy is False


async def test_a_kernel_that_ran_before_we_listened_is_found(on_hub, jp_serverapp, extension, until):
    kernel = Kernel(jp_serverapp)
    await kernel.start()
    try:
        extension.watch.start()
        assert extension.watch.history(kernel.id) == ()
        assert one(extension).busy is False
        await asyncio.sleep(0.5)  # a subscription takes a moment; the user's first cell comes later
        await kernel.run("a = 1")
        await until(lambda: extension.watch.history(kernel.id), "one cell")
    finally:
        await kernel.stop()


async def test_the_first_cell_is_known_though_nobody_asked_before(on_hub, jp_serverapp, extension, until):
    await extension._start_jupyter_server_extension(jp_serverapp)
    kernel = Kernel(jp_serverapp)
    await kernel.start()
    try:
        await kernel.run("first = 1")
        await until(lambda: extension.watch.history(kernel.id), "one cell")
        assert extension.watch.history(kernel.id)[0].code == "first = 1"
    finally:
        await kernel.stop()


async def test_a_kernel_that_is_gone_is_forgotten(kernel, extension, fetch):
    await kernel.stop()
    assert extension.watch.activity() == []
    status, problem = await fetch("GET", "kernels", kernel.id, "history")
    assert (status, problem["code"]) == (404, "not_found")
