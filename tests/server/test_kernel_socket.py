"""A kernel of the server loads what a job brought back, through a socket that only its user can open."""

import hashlib
import os
import pickle
import stat
import sys
from pathlib import Path

import pytest

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
