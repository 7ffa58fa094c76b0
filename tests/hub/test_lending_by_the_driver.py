"""The share of an idle notebook is lent by the real probe and the real checkpointer, and what it holds comes back.

Hub, service, servers, kernels and jobs are real; the libraries of the driver are fakes in C. The kernel and the job
hold memory of the fake GPU through its libcuda, too much for both at once.
"""

import asyncio

import pytest

from jupyter_gq.demo.person import Person
from jupyter_gq.demo.story import make_notebook
from jupyter_gq.devices.processes import read_process
from tests.driver_fakes import compiler
from tests.patience import eventually

from .test_driver_enforcers import running_hub
from .test_lending import share_of

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(compiler() is None, reason="there is no C compiler for the fake libraries of the driver"),
]

#: MiB of the fake GPU, and what the kernel and the job hold of it.
DEVICE, KERNEL, JOB = 2048, 900, 1500
SETTINGS = (
    'c.FixedQuota.default = "1"',
    'c.TrainingQueues.queues = {{"nlp": {{"quota": "1", "groups": ["nlp"]}}}}',
    "c.IdlePolicy.after, c.IdlePolicy.warning, c.IdlePolicy.grace = 8, 3, 0",
    "c.IdlePolicy.suspend = True",
    "c.IdlePolicy.return_within = 20",
    "c.TrainingQueues.grace = 900",
)
#: Seconds of `c.IdlePolicy.return_within`.
WITHIN = 20
#: Holds memory of the GPU with a number in it.
HOLD = """
import ctypes, os
os.environ["GQ_FAKE_DRIVER"] = "{folder}/driver"
cuda, pointer, number = ctypes.CDLL("{folder}/driver/libcuda.so.1"), ctypes.c_uint64(), ctypes.c_uint64({number})
def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, (name, code)
call("cuInit", 0)
call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t({mib} << 20))
call("cuMemcpyHtoD_v2", pointer, ctypes.byref(number), ctypes.c_size_t(8))
"""
#: Prints the number that is in the memory of the GPU now.
READ = """
found = ctypes.c_uint64()
call("cuMemcpyDtoH_v2", ctypes.byref(found), pointer, ctypes.c_size_t(8))
print(found.value)
"""
#: A job that holds its memory until there is a file.
TRAINING = """{hold}
import time
while not os.path.exists("{folder}/enough"):
    time.sleep(0.1)
{read}"""


async def test_what_kernel_and_borrower_hold_on_the_gpu_comes_back_each_time():
    async with (
        running_hub(*SETTINGS, users=("ann", "bob"), memory=DEVICE) as (url, folder),
        Person(url, "ann") as ann,
        Person(url, "bob") as bob,
    ):
        await asyncio.gather(ann.start_server("1"), bob.start_server("0"))
        kernel = await ann.start_kernel("digits.ipynb")
        await ann.run_cell(kernel, HOLD.format(folder=folder, number=4711, mib=KERNEL))
        hold = HOLD.format(folder=folder, number=815, mib=JOB)
        notebook = make_notebook(TRAINING.format(folder=folder, hold=hold, read=READ))
        bobs = await bob.start_kernel("digits.ipynb")
        job = (await bob.send(notebook, "digits.ipynb", bobs, "cell", queue="nlp", gpus="1"))["id"]

        seen = {}

        async def comes_to(of_notebook, *of_job):
            async def is_there():
                seen.update(notebook=await share_of(ann), job=await bob.job(job))
                return seen["notebook"]["phase"] == of_notebook and seen["job"]["phase"] in of_job

            await eventually(is_there, lambda: f"{of_notebook}, {of_job}: {seen}", seconds=180, every=0.3)

        await comes_to("suspended", "running")
        assert seen["notebook"]["suspension"]["memory_mib"] == KERNEL
        await eventually(lambda: held(folder) == [JOB], lambda: f"the memory of the job: {held(folder)}", seconds=60)

        assert await ann.run_cell(kernel, READ) == "4711\n", "the cell waited, and its memory is as before"
        await comes_to("running", "paused")
        assert seen["job"]["pause"]["way"] == "suspended"
        assert held(folder) == [KERNEL]

        await comes_to("suspended", "running")
        assert (held(folder), seen["job"]["run"]) == ([JOB], 1)
        (folder / "enough").touch()
        await comes_to("suspended", "done")
        document = await bob.ask_service("GET", f"jobs/{job}/notebook")
        assert "815\n" in str(document["cells"]).replace("\\n", "\n")

        # The driver cannot lock this job, whose code never asks whether it should stop.
        (folder / "enough").unlink()
        job = (await bob.send(notebook, "digits.ipynb", bobs, "cell", queue="nlp", gpus="1"))["id"]
        await comes_to("suspended", "running")
        await eventually(lambda: held(folder) == [JOB], lambda: f"the memory of the job: {held(folder)}", seconds=60)
        (of_job,) = [file for file in programs(folder) if file.read_text().startswith(f"0 {JOB << 20} ")]
        of_job.with_suffix(".busy").touch()
        cell = asyncio.create_task(ann.run_cell(kernel, READ))

        async def is_told():
            seen.update(notebook=await share_of(ann))
            return cell.done() or f"within about {WITHIN} s" in seen["notebook"]["sentence"]

        await eventually(is_told, lambda: f"the promise: {seen}")
        await eventually(cell.done, lambda: f"the share: {seen}, {held(folder)}", seconds=10, promised=WITHIN)
        assert await cell == "4711\n"
        await comes_to("running", "paused")
        assert (seen["job"]["pause"]["way"], held(folder)) == ("restart", [KERNEL])


def held(folder):
    """Return the MiB that each program has on the fake GPU, without those that are suspended or have ended."""
    states = [file.read_text().split() for file in programs(folder)]
    return [int(size) >> 20 for state, size, _ in states if int(state) < 2]


def programs(folder):
    """Return the files of the programs that the fake driver knows and that have not ended."""
    files = [file for file in (folder / "driver").glob("[0-9]*") if file.name.isdecimal()]
    found = [(file, read_process(int(file.name))) for file in files]
    return [file for file, process in found if process is not None and not process.dead]
