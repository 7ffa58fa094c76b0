"""A kernel of the server loads what a job brought back, through a socket that only its user can open."""

import asyncio
import hashlib
import json
import os
import pickle
import stat
import sys
from pathlib import Path

import pytest

from jupyter_gq.notebook.server_socket import ask_server
from tests.patience import scaled
from tests.server.service import a_job
from tests.server.test_kernels import Kernel

CONTENT = pickle.dumps({"weights": [1, 2, 3]})


@pytest.fixture
def kernel(jp_asyncio_loop, on_hub, jp_serverapp, extension):
    """Return a kernel of the server with our extension of IPython, which the start-up file loads elsewhere."""
    kernel = Kernel(jp_serverapp)

    async def start():
        extension.kernel_socket.start()
        await kernel.start()
        await kernel.run("%load_ext jupyter_gq")

    jp_asyncio_loop.run_until_complete(start())
    yield kernel
    jp_asyncio_loop.run_until_complete(kernel.stop())


def brings_back(service, **fields):
    """Let job-7f3 have brought `model` back."""
    entry = {
        "name": "model",
        "type": "dict",
        "bytes": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "path": "vars/0.pickle",
        "reason": "",
        **fields,
    }
    python = "{}.{}".format(*sys.version_info)
    service.answers["GET", "jobs/job-7f3/results"] = (200, {"python": python, "variables": [entry]})
    service.contents["jobs/job-7f3/results/content", "vars/0.pickle"] = CONTENT


async def test_a_kernel_loads_a_result_by_the_magic_and_by_the_function(service, kernel):
    brings_back(service)
    reply = await kernel.run("%gq_load job-7f3 model\nassert model == {'weights': [1, 2, 3]}")
    assert reply["content"]["status"] == "ok", reply["content"]
    reply = await kernel.run("import jupyter_gq\nassert jupyter_gq.result('job-7f3') == {'model': model}")
    assert reply["content"]["status"] == "ok", reply["content"]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "has brought model back. Load it with: %gq_load job-7f3 model\n"),
        ({"bytes": None, "reason": "It is a lock."}, "could not bring model back. It is a lock.\n"),
    ],
)
async def test_a_kernel_is_told_which_job_has_a_missing_name(service, kernel, fields, told):
    brings_back(service, **fields)
    service.answers["GET", "jobs"] = (200, {"jobs": [a_job(phase="done", returns=["model"])]})
    said = []
    await kernel.client.execute_interactive(
        "model", timeout=scaled(120), output_hook=lambda message: said.append(message["content"].get("text", ""))
    )
    assert f"The job 'Digits' {told}" in said


async def test_a_job_whose_results_do_not_list_a_name_has_not_brought_it_back(service, kernel):
    brings_back(service, name="other")
    service.answers["GET", "jobs"] = (200, {"jobs": [a_job(phase="done", returns=["model"])]})
    said = []
    await kernel.client.execute_interactive(
        "model", timeout=scaled(120), output_hook=lambda message: said.append(message["content"].get("text", ""))
    )
    assert "The job 'Digits' could not bring model back. Its results do not list it.\n" in said


@pytest.mark.parametrize(
    ("phases", "told"),
    [
        (["done"], None),
        (["running", "done"], ("", "", "running")),
    ],
)
async def test_what_is_not_known_in_time_is_not_said_to_be_missing(service, on_hub, extension, phases, told):
    jobs = [a_job(id=f"job-{n}", name=f"job {n}", phase=phase, returns=["model"]) for n, phase in enumerate(phases)]
    service.answers["GET", "jobs"] = (200, {"jobs": jobs})
    service.answers_late = {("GET", f"jobs/{job['id']}/results") for job in jobs}
    extension.kernel_socket.start()
    socket = str(extension.kernel_socket.path)
    status, body = await asyncio.to_thread(ask_server, socket, ["names", "model"], {}, scaled(60))
    service.late_gate.set()
    found = json.loads(body)
    if told is None:
        assert status == 504
        assert found["message"] == "The service did not say in time whether a job has brought model back."
        return
    assert (found["job"], found["reason"], found["newer"]["phase"]) == told


@pytest.mark.parametrize(
    ("phases", "lost", "told"),
    [
        (["failed", "done"], [], ("job-1", "", None)),
        (["running", "cancelled", "done"], [], ("job-2", "", "running")),
        (["done", "done"], ["job-0"], ("job-1", "", None)),
        (["done", "running", "done"], ["job-0"], ("job-2", "", "running")),
        (["done", "done"], ["job-0", "job-1"], ("job-0", "Its results are no longer kept.", None)),
        (["paused", "failed"], [], ("", "", "paused")),
        (["failed", "cancelling"], [], None),
    ],
)
async def test_a_missing_name_is_looked_for_in_older_jobs_too(service, on_hub, extension, phases, lost, told):
    jobs = [a_job(id=f"job-{n}", name=f"job {n}", phase=phase, returns=["model"]) for n, phase in enumerate(phases)]
    service.answers["GET", "jobs"] = (200, {"jobs": [a_job(id="other", phase="done", returns=[]), *jobs]})
    entry = {"name": "model", "type": "dict", "bytes": 1, "sha256": "0" * 64, "path": "vars/0.pickle", "reason": ""}
    for job in jobs:
        gone = (404, {"code": "not_found", "message": "Gone."})
        kept = (200, {"python": "3.11", "variables": [entry]})
        service.answers["GET", f"jobs/{job['id']}/results"] = gone if job["id"] in lost else kept
    extension.kernel_socket.start()
    socket = str(extension.kernel_socket.path)
    status, body = await asyncio.to_thread(ask_server, socket, ["names", "model"], {}, scaled(60))
    if told is None:
        assert status == 404
        return
    found = json.loads(body)
    newer = found["newer"] and found["newer"]["phase"]
    assert (found["job"], found["reason"], newer) == told


async def test_only_the_user_can_open_the_socket_and_it_goes_with_the_server(service, kernel, extension):
    path = extension.kernel_socket.path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.environ["JUPYTER_GQ_SOCKET"] == str(path)
    extension.kernel_socket.close()
    assert not Path(path).parent.exists()
    assert "JUPYTER_GQ_SOCKET" not in os.environ


async def test_a_refusal_of_the_service_is_what_the_kernel_says(service, kernel):
    service.answers["GET", "jobs/job-7f3/results"] = (404, {"code": "not_found", "message": "Nothing came back."})
    said = []
    await kernel.client.execute_interactive(
        "%gq_load job-7f3", timeout=scaled(120), output_hook=lambda message: said.append(str(message["content"]))
    )
    assert "Nothing came back." in "".join(said)
