"""Cells of real kernels wait while the share of their notebook is lent, with each ipykernel that is at hand.

The kernels are those of this environment, and of each environment `.venv-ipykernel-*` in the folder of the repository:
`make test` makes the one of the oldest version, and `make kernels` others.
"""

import asyncio
import socket
import sys
from pathlib import Path

import pytest
import pytest_asyncio
from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.factory import KernelProvisionerFactory

from jupyter_gq.lab.provisioner import GQProvisioner
from tests.fakes.kernel_sockets import AnswersRequests, HasASilentService, IsGone, NeverAnswers, running
from tests.patience import eventually, scaled

pytestmark = pytest.mark.asyncio

ROOT = Path(__file__).parents[2]
PYTHONS = {"present": Path(sys.executable)} | {
    made.parent.name.removeprefix(".venv-"): made.parent / "bin/python"
    for made in sorted(ROOT.glob(".venv-ipykernel-*/.installed"))
}


class OurProvisioner(KernelProvisionerFactory):
    """The provisioner of servers that a spawner of ours has started."""

    def create_provisioner_instance(self, kernel_id, kernel_spec, parent):
        return GQProvisioner(kernel_id=kernel_id, kernel_spec=kernel_spec, parent=parent)


class Manager(AsyncKernelManager):
    """The manager of one kernel of the given Python."""

    python = ""

    @property
    def kernel_spec(self):
        argv = [self.python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python", language="python")


class Page:
    """A page with a notebook: it runs cells and collects what stands under them."""

    def __init__(self, manager: Manager, client: AsyncKernelClient) -> None:
        self.manager, self.client = manager, client
        #: What each request published: type and content.
        self.published: dict[str, list[tuple[str, dict]]] = {}

    def begin(self, code: str, **options) -> str:
        return self.client.execute(code, **options)

    async def listen(self) -> None:
        while True:
            message = await self.client.get_iopub_msg()
            request = message["parent_header"].get("msg_id", "")
            self.published.setdefault(request, []).append((message["msg_type"], message["content"]))

    def ended(self, request: str) -> bool:
        return ("status", {"execution_state": "idle"}) in self.published.get(request, [])

    async def end(self, request: str) -> list[tuple[str, dict]]:
        """Wait for the end of a cell; return what it has published."""
        await eventually(lambda: self.ended(request), lambda: f"end of the cell: {self.published.get(request)}")
        return [(kind, content) for kind, content in self.published[request] if kind != "status"]

    async def run(self, code: str, **options) -> list[tuple[str, dict]]:
        return await self.end(self.begin(code, **options))

    def lines(self, request: str) -> list[str]:
        """Return all texts that the line under a cell has had."""
        return [
            content["data"]["text/plain"]
            for kind, content in self.published.get(request, [])
            if kind in {"display_data", "update_display_data"}
        ]

    async def begin_waiting(self, code: str) -> str:
        request = self.begin(code)
        await eventually(lambda: self.lines(request), "the line under the cell")
        return request


def printed(published):
    return "".join(content["text"] for kind, content in published if kind == "stream")


def error_of(published):
    return next((content["ename"] for kind, content in published if kind == "error"), None)


@pytest.fixture
def kind_of_server():
    """Return the class of the Jupyter server; a test parametrises it with another."""
    return AnswersRequests


@pytest.fixture
def server(kind_of_server):
    with running(kind_of_server) as server:
        yield server


@pytest_asyncio.fixture(params=PYTHONS, ids=PYTHONS.keys())
async def page(request, server, monkeypatch):
    monkeypatch.setenv("JUPYTER_GQ_SOCKET", str(server.path))
    monkeypatch.setattr(KernelProvisionerFactory, "instance", lambda **_: OurProvisioner())
    # Over sockets of files: another process may take a port between its choice and the start of the kernel.
    manager = Manager(transport="ipc")
    manager.python = str(PYTHONS[request.param])
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    await client.wait_for_ready(timeout=scaled(120))
    page = Page(manager, client)
    listening = asyncio.create_task(page.listen())
    yield page
    listening.cancel()
    client.stop_channels()
    await manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("python", PYTHONS.values(), ids=PYTHONS.keys())
async def test_kernel_that_cannot_bind_a_port_ends_so_that_jupyter_starts_another(monkeypatch, python):
    monkeypatch.setattr(KernelProvisionerFactory, "instance", lambda **_: OurProvisioner())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        manager = Manager(cache_ports=False, iopub_port=taken.getsockname()[1])
        manager.python = str(python)
        await manager.start_kernel()
        try:
            assert await asyncio.wait_for(manager.provisioner.wait(), scaled(60)) == 1
        finally:
            await manager.shutdown_kernel(now=True)


async def test_cell_runs_at_once_while_the_share_is_there(page, server):
    assert printed(await page.run("print(type(get_ipython().kernel).__name__)")) == "WaitingKernel\n"
    assert printed(await page.run("import asyncio\nawait asyncio.sleep(0.01)\nprint('awaited')")) == "awaited\n"
    assert server.asked == []


async def test_cell_waits_says_so_and_runs_when_the_share_is_back(page, server):
    await page.run("x = 41")
    server.lend("Lent to carol.")
    request = await page.begin_waiting("print(x + 1)")
    assert page.lines(request) == ["Lent to carol. This cell starts by itself when the GPU is back."]
    await eventually(lambda: server.asked, "a request for the share")
    assert server.asked[0] == ("POST", "/share/want")
    server.lend("The share is coming back.")
    await eventually(lambda: page.lines(request)[-1].startswith("The share is coming back."), "the new sentence")
    assert not page.ended(request)
    server.give_back()
    published = await page.end(request)
    kinds = [kind for kind, _ in published]
    assert kinds.index("clear_output") < kinds.index("stream"), "the line goes before the cell begins"
    assert printed(published) == "42\n"
    displayed = [content["transient"]["display_id"] for kind, content in published if "display_data" in kind]
    assert len(displayed) >= 2
    assert len(set(displayed)) == 1, "one line, whose text changes"


async def test_interrupted_wait_leaves_the_cell_unrun_and_later_cells_work(page, server):
    await page.run("x = 1")
    server.lend()
    waiting = await page.begin_waiting("x = 99")
    behind = page.begin("x = 98")
    await page.manager.interrupt_kernel()
    published = await page.end(waiting)
    assert error_of(published) == "GPUWaitInterrupted"
    assert "clear_output" in [kind for kind, _ in published]
    # The kernel drops what has come before the interrupt; what comes later waits for the share as the first one did.
    await eventually(lambda: page.ended(behind) or page.lines(behind), "the end of the other cell, or its wait")
    if not page.ended(behind):
        await page.manager.interrupt_kernel()
    await page.end(behind)
    server.give_back()
    assert printed(await page.run("print(x)")) == "1\n"
    sleeping = page.begin("import time\nprint('begun', flush=True)\ntime.sleep(600)")
    await eventually(lambda: printed(page.published.get(sleeping, [])), "the cell has begun")
    await page.manager.interrupt_kernel()
    assert error_of(await page.end(sleeping)) == "KeyboardInterrupt"


async def test_wait_that_takes_too_long_leaves_the_cell_unrun(page, server):
    server.lend(timeout=0.2)
    published = await page.run("x = 99")
    assert error_of(published) == "GPUWaitTimeout"
    server.give_back()
    assert printed(await page.run("print('x' in globals())")) == "False\n"


async def test_questions_of_the_page_are_answered_while_the_share_is_lent(page, server):
    server.lend()
    await page.run("y = 5", silent=True, store_history=False)
    assert printed(await page.run("print(y)", store_history=False)) == "5\n"
    reply = await page.client.complete("pri", reply=True, timeout=scaled(60))
    assert "print" in reply["content"]["matches"]
    assert server.asked == [], "nobody waits for the share"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"back_at": 1}', '{"sentence": "x", "timeout": "soon"}'])
async def test_notice_that_cannot_be_read_locks_nobody_out(page, server, text):
    server.notice.write_text(text)
    assert printed(await page.run("print('ran')")) == "ran\n"


@pytest.mark.parametrize("kind_of_server", [NeverAnswers, IsGone])
class TestWithAServerThatDoesNotAnswer:
    async def test_cell_runs_at_once_while_the_share_is_there(self, page):
        assert printed(await page.run("print('ran')")) == "ran\n"

    async def test_cell_waits_for_a_share_that_is_known_to_be_lent_and_says_why(self, page, server):
        server.lend("Lent to carol.")
        request = await page.begin_waiting("print('ran')")
        await eventually(lambda: "server does not answer" in page.lines(request)[-1], "the line says it")
        server.give_back()
        assert printed(await page.end(request)) == "ran\n"


async def test_line_says_that_the_service_cannot_be_reached(page, server):
    server.lend(reachable=False)
    request = await page.begin_waiting("1")
    assert "The GPU scheduler cannot be reached" in page.lines(request)[0]
    server.give_back()
    await page.end(request)


@pytest.mark.parametrize("kind_of_server", [HasASilentService])
async def test_line_says_that_the_service_does_not_answer_before_the_connection_counts_as_lost(page, server):
    server.lend("Lent to carol.")
    request = await page.begin_waiting("1")
    await eventually(lambda: "The GPU scheduler cannot be reached" in page.lines(request)[-1], "the line says it")
    assert not any("Jupyter server" in line for line in page.lines(request))
    server.give_back()
    await page.end(request)
