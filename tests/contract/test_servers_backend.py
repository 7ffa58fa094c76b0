"""Notebook servers: which processes are accepted as a server, and how the Hub is asked to stop one."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest
import pytest_asyncio
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from jupyter_gq.backends.protocol import Launch, Outcome, Phase
from jupyter_gq.backends.server_stopper import HubServerStopper
from jupyter_gq.devices.linux.processes import read_process
from jupyter_gq.domain.errors import BackendError, Conflict
from jupyter_gq.domain.workload_detail import WorkloadDetail
from tests.kubernetes.waiting import eventually
from tests.patience import scaled

from .worlds import runs

pytestmark = pytest.mark.asyncio


def started(pid):
    return psutil.Process(pid).create_time()


async def test_server_without_a_process_is_starting_until_the_timeout(servers):
    workload = servers.workload()
    await servers.backend.launch(Launch(workload=workload))
    assert (await servers.observed(workload)).phase is Phase.STARTING
    servers.clock.ahead += 179
    assert (await servers.observed(workload)).phase is Phase.STARTING
    servers.clock.ahead += 1.5
    end = await servers.end(workload)
    assert end.outcome is Outcome.LOST
    assert "180 seconds" in end.sentence
    with pytest.raises(Conflict, match="holds no share"):
        servers.backend.attach(workload.id, 1, os.getpid(), started(os.getpid()))


@pytest.mark.parametrize("how", ["late", "stopped"])
async def test_a_process_that_a_killed_hub_never_reported_ends_before_its_share_is_free(servers, how):
    """Nor does a process of another user end that carries a copy of the ticket."""
    workload = servers.workload()
    await servers.backend.launch(Launch(workload=workload))
    ticket = {**os.environ, "JUPYTER_GQ_TICKET": workload.id}
    deaf = ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do /bin/sleep 0.1; done"]
    with (
        subprocess.Popen(deaf, env={**ticket, "JUPYTERHUB_USER": "ann"}, stdout=subprocess.PIPE) as lost,  # noqa: ASYNC220
        subprocess.Popen(["/bin/sleep", "60"], env={**ticket, "JUPYTERHUB_USER": "bob"}) as other,  # noqa: ASYNC220
    ):
        try:
            assert lost.stdout.readline() == b"ready\n"
            if how == "late":
                servers.clock.ahead += 181
            else:
                await servers.backend.stop(workload.id, 1, 0)
            assert (await servers.observed(workload)).phase is Phase.STARTING, "it holds the share"
            servers.clock.ahead += 9
            assert (await servers.observed(workload)).phase is Phase.STARTING
            servers.clock.ahead += 2
            end = await servers.end(workload)
            assert end.outcome is (Outcome.LOST if how == "late" else Outcome.SUCCEEDED)
            assert lost.wait(scaled(10)) == -signal.SIGKILL
            assert other.poll() is None
        finally:
            lost.kill()
            other.kill()


async def test_a_server_that_ends_by_itself_has_succeeded(servers):
    workload = servers.workload()
    await servers.launch(workload)
    await servers.running(workload)
    os.kill(servers.leader(workload), signal.SIGKILL)
    assert (await servers.end(workload)).outcome is Outcome.SUCCEEDED


async def test_only_a_program_of_the_server_can_be_signalled(servers):
    """Not the server itself, no program of others, and none that only has the same id."""
    workload, program = servers.workload(), "import time; time.sleep(600)"
    await servers.launch(workload)
    await servers.running(workload)
    leader = servers.leader(workload)
    environment = {**os.environ, "JUPYTER_GQ_TICKET": workload.id}
    kernel = subprocess.Popen([sys.executable, "-c", program], env=environment)  # noqa: ASYNC220
    stranger = subprocess.Popen([sys.executable, "-c", program])  # noqa: ASYNC220
    try:
        own = (workload.id, 1)
        of_kernel = read_process(kernel.pid).id
        signalled = servers.backend.signal_process
        assert not signalled(*own, read_process(leader).id, signal.SIGTERM)
        assert not signalled(*own, read_process(stranger.pid).id, signal.SIGTERM)
        assert not signalled(*own, replace(of_kernel, ticks=of_kernel.ticks - 1), signal.SIGTERM)
        assert not signalled("another", 1, of_kernel, signal.SIGTERM)
        assert (kernel.poll(), stranger.poll(), psutil.pid_exists(leader)) == (None, None, True)
        await eventually(lambda: signalled(*own, of_kernel, signal.SIGTERM))
        assert kernel.wait() == -signal.SIGTERM
    finally:
        for process in (kernel, stranger):
            process.kill()
            process.wait()


async def test_a_process_of_another_user_is_refused(servers):
    workload = servers.workload()
    with pytest.raises(Conflict, match="not a notebook server of ann"):
        await servers.launch(workload, user="bob")
    assert (await servers.observed(workload)).phase is Phase.STARTING


async def test_a_process_whose_program_has_not_begun_is_to_be_reported_again(servers):
    """Its environment is empty then, as that of this program is to its end: after a minute it is refused."""
    workload = servers.workload()
    await servers.backend.launch(Launch(workload=workload))
    with subprocess.Popen(["/bin/sleep", "60"], env={}) as process:  # noqa: ASYNC220
        try:
            with pytest.raises(BackendError, match=f"process {process.pid} has not begun yet"):
                servers.backend.attach(workload.id, 1, process.pid, started(process.pid))
            servers.clock.ahead += 61
            with pytest.raises(Conflict, match="is not a notebook server of ann"):
                servers.backend.attach(workload.id, 1, process.pid, started(process.pid))
            servers.clock.ahead -= 61
            servers.backend._hub_processes = set
            with pytest.raises(Conflict, match="is not a notebook server of ann"):
                servers.backend.attach(workload.id, 1, process.pid, started(process.pid))
        finally:
            process.kill()


async def test_a_process_that_the_hub_did_not_start_is_not_believed_whatever_its_environment_says(servers):
    """All servers run under one account here, and any of their programs can be called ann's."""
    workload = servers.workload()
    await servers.backend.launch(Launch(workload=workload))
    command = ["/bin/sh", "-c", "/bin/sleep 60 & echo $!; wait"]
    environment = {**os.environ, "JUPYTERHUB_USER": workload.owner, "JUPYTER_GQ_TICKET": workload.id}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as shell:  # noqa: ASYNC220
        pid = int(shell.stdout.readline())
        try:
            for check in (
                lambda: servers.backend.check_process(workload.owner, pid, started(pid)),
                lambda: servers.backend.attach(workload.id, 1, pid, started(pid)),
            ):
                with pytest.raises(Conflict, match="is not a notebook server of ann"):
                    check()
            assert (await servers.observed(workload)).phase is Phase.STARTING
            servers.backend.attach(workload.id, 1, shell.pid, started(shell.pid))  # a child of the Hub
        finally:
            shell.kill()
            os.kill(pid, signal.SIGKILL)


async def test_a_server_that_was_accepted_before_outlives_its_hub(servers):
    """Its parent is then another process, and the service takes the process of its record."""
    workload = servers.workload()
    process = await servers.start(workload)
    servers.backend._hub_processes = set
    detail = WorkloadDetail(pid=process.pid, pid_started=started(process.pid))
    await servers.backend.launch(Launch(workload=workload, detail=detail))
    assert (await servers.observed(workload)).phase is Phase.RUNNING


async def test_the_hub_is_the_parent_of_the_service_or_of_its_keeper():
    code = "from jupyter_gq.backends.servers.server_process import find_hub_processes as f; print(sorted(f()))"
    keeper = f"import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', {code!r}], text=True))"
    with subprocess.Popen([sys.executable, "-c", keeper], stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220
        found = process.stdout.readline()
    assert found == f"{sorted({process.pid, os.getpid()})}\n"


async def test_a_process_that_started_at_another_time_is_refused(servers):
    workload = servers.workload()
    await servers.backend.launch(Launch(workload=workload))
    process = await servers.start(workload)
    with pytest.raises(Conflict, match="no process"):
        servers.backend.attach(workload.id, 1, process.pid, started(process.pid) - 60)
    servers.backend.attach(workload.id, 1, process.pid, started(process.pid) + 1.5)
    servers.backend.attach(workload.id, 1, process.pid, started(process.pid))
    assert (await servers.observed(workload)).phase is Phase.RUNNING


async def test_a_second_process_is_refused_while_the_first_lives(servers):
    workload, other = servers.workload(), servers.workload(name="other")
    await servers.launch(workload)
    process = await servers.start(other)
    with pytest.raises(Conflict, match="Another process"):
        servers.backend.attach(workload.id, 1, process.pid, started(process.pid))


async def test_recorded_process_of_another_user_is_not_accepted(servers):
    """A process id in a record may come from a request that could not be checked when it was made."""
    workload = servers.workload()
    process = await servers.start(servers.workload(), user="bob")
    detail = WorkloadDetail(pid=process.pid, pid_started=started(process.pid))
    await servers.backend.launch(Launch(workload=workload, detail=detail))
    servers.hub.pids.clear()
    await servers.backend.stop(workload.id, 1, 0)
    servers.clock.ahead += 1
    await servers.observed(workload)
    assert runs(process.pid)


async def test_stop_before_the_start_frees_the_share_once_the_hub_has_accepted(servers):
    workload = servers.workload(name="gpu")
    await servers.backend.launch(Launch(workload=workload))
    await servers.backend.stop(workload.id, 1, 60)
    assert (await servers.end(workload)).outcome is Outcome.SUCCEEDED
    assert servers.hub.asked == [("ann", "gpu")]


async def test_a_server_that_was_started_again_is_not_stopped_for_the_share_of_its_first_start(servers):
    """The Hub knows both by the same name, and would stop the second."""
    first = servers.workload(name="gpu")
    await servers.launch(first, {"ignores stop": True})
    again = servers.workload(name="gpu", submitted=60)
    await servers.launch(again)
    await servers.backend.stop(first.id, 1, 0)
    assert (await servers.end(first)).outcome is Outcome.KILLED
    await servers.running(again)
    assert servers.hub.asked == []


class DeafAtFirst:
    """A Hub that restarts, so that the first request fails."""

    def __init__(self, hub):
        self.hub, self.tries = hub, 0

    async def stop(self, user, server):
        self.tries += 1
        if self.tries == 1:
            raise BackendError("The Hub could not be asked.")
        await self.hub.stop(user, server)


async def test_failed_request_to_the_hub_is_repeated_after_a_pause(servers):
    servers.backend._stopper = deaf = DeafAtFirst(servers.hub)
    workload = servers.workload()
    await servers.launch(workload)
    await servers.backend.stop(workload.id, 1, 600)
    await eventually(lambda: deaf.tries == 1 and servers.backend._servers[workload.id, 1].asking is None, "a first try")
    await servers.observed(workload)
    await asyncio.sleep(0)
    assert deaf.tries == 1, "not in the same breath"
    servers.clock.ahead += 6
    assert (await servers.end(workload)).outcome is Outcome.SUCCEEDED
    assert deaf.tries == 2


# --- the Hub's API


class FakeHub(RequestHandler):
    """A Hub whose API gives the answers of the test."""

    def delete(self, path):
        self.application.settings["seen"].append((self.request.path, self.request.headers["Authorization"]))
        self.set_status(self.application.settings["answers"].pop(0))


@pytest_asyncio.fixture
async def hub():
    seen, answers = [], []
    application = Application([(r"/hub/api/(.*)", FakeHub)], seen=seen, answers=answers)
    server = HTTPServer(application)
    (listener,) = bind_sockets(0, "127.0.0.1")
    server.add_sockets([listener])
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/hub/api", seen, answers
    server.stop()
    await server.close_all_connections()


@pytest.mark.parametrize("answer", [202, 204, 404])
@pytest.mark.parametrize(("server", "path"), [("", "server"), ("my gpu/1", "servers/my%20gpu%2F1")])
async def test_stop_is_requested_from_the_hub_with_the_service_s_token(hub, answer, server, path):
    url, seen, answers = hub
    answers.append(answer)
    await HubServerStopper(url, "t0ken").stop("ann@x", server)
    assert seen == [(f"/hub/api/users/ann%40x/{path}", "token t0ken")]


@pytest.mark.parametrize("answer", [400, 403, 500, 503])
async def test_a_refusal_of_the_hub_is_an_error(hub, answer):
    url, _, answers = hub
    answers.append(answer)
    with pytest.raises(BackendError, match=f"refused to stop a server: {answer}"):
        await HubServerStopper(url, "t").stop("ann", "")


async def test_unreachable_hub_is_an_error():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/hub/api"
    with pytest.raises(BackendError, match="could not be asked"):
        await HubServerStopper(url, "t").stop("ann", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of other accounts")
async def test_a_process_of_another_account_is_not_believed_whatever_its_environment_says(servers):
    workload = servers.workload()
    await servers.backend.launch(Launch(workload=workload))
    environment = {"JUPYTERHUB_USER": workload.owner}
    with subprocess.Popen(["/bin/sleep", "60"], env=environment, user="nobody") as process:  # noqa: ASYNC220
        try:
            with pytest.raises(Conflict, match="is not a notebook server of"):
                servers.backend.attach(workload.id, 1, process.pid, started(process.pid))
        finally:
            process.kill()
