"""The real service while it starts: what is answered at its port, what it waits for, and that it can be ended."""

import contextlib
import json
import signal
from pathlib import Path

import pytest
import pytest_asyncio
from tornado.httpclient import AsyncHTTPClient

from jupyter_gq.backends.local.ledger import Ledger, Run
from jupyter_gq.client.connection.early_answer import DELAY_VARIABLE
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.devices.linux.processes import boot_id
from jupyter_gq.store.folder_lock import lock_folder
from jupyter_gq.store.sql import SqlStore
from tests.api.hubs import Hub
from tests.patience import eventually, scaled

from .test_killed_service import CONFIG, RealService

pytestmark = pytest.mark.asyncio

#: Lines of a configuration file that wait until there is the file `go`.
WAITS = """
import os, time
while not os.path.exists("go"):
    time.sleep(0.05)
"""


@pytest_asyncio.fixture
async def service(tmp_path):
    """A service that starts for as long as there is no file `go`, and that is asked for an early answer."""
    hub = Hub()
    await hub.start()
    service = RealService(tmp_path, hub)
    (tmp_path / "jupyterhub_config.py").write_text(WAITS + CONFIG)
    service.start(**{DELAY_VARIABLE: "0"})
    yield service
    service.clean_up()
    await hub.stop()


async def get(service, path):
    """Return status and body of the answer at a path below the page; (0, b"") without an answer."""
    url = f"{service.url}/services/jupyter-gq/{path}"
    try:
        response = await AsyncHTTPClient().fetch(url, raise_error=False, request_timeout=scaled(20))
    except OSError:
        return 0, b""
    return (response.code, response.body) if response.code != 599 else (0, b"")


async def test_the_port_answers_before_the_service_is_ready(service, tmp_path):
    async def answers():
        return (await get(service, ""))[0] == 200

    async def is_ready():
        return (await get(service, "api/v1/ready"))[0] == 200

    await eventually(answers, service.log)
    status, body = await get(service, "api/v1/ready")
    assert (status, json.loads(body)["code"]) == (503, "not_ready")
    (tmp_path / "go").touch()
    await eventually(is_ready, service.log)
    assert (await get(service, ""))[0] == 404, "the service itself answers, here without its page"
    assert "jupyter-gq service on" in service.log()


async def test_a_service_that_starts_can_be_ended(service):
    async def answers():
        return (await get(service, ""))[0] == 200

    await eventually(answers, service.log)
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(scaled(20)) in {0, -signal.SIGTERM}


def has_open(pid, file):
    """Return whether a process has opened a file."""
    for opened in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            if opened.samefile(file):
                return True
    return False


async def test_what_an_earlier_service_launches_before_it_ends_is_known(service, tmp_path):
    """A run that the new service does not know would be launched again, beside the first one."""
    state = tmp_path / "jupyter-gq-state"

    async def knows_the_run():
        return "run ended: job=job-1 run=1 outcome=REFUSED" in service.log()

    with lock_folder(state):
        SqlStore(f"sqlite:///{state / 'service.sqlite'}").close()
        (tmp_path / "go").touch()
        await eventually(lambda: has_open(service.process.pid, state / "lock"), service.log)
        (state / "runs").mkdir(exist_ok=True)
        run = Run(job="job-1", number=1, owner="ann", tasks=(None,), launched_at=0.0, boot=boot_id())
        Ledger(state / "runs", SystemClock()).put(run)
    await eventually(knows_the_run, service.log)
