"""The share of an idle notebook is lent by the real probe and the real checkpointer, and what it holds comes back.

Hub, service, servers, kernels and jobs are real; the libraries of the driver are fakes in C. The kernel and the job
hold memory of the fake GPU through its libcuda, too much for both at once.
"""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jupyter_gq.demo.person import Person
from jupyter_gq.demo.story import make_notebook, run_alongside
from jupyter_gq.devices.linux.processes import read_process
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
#: Reads it while the share is there, says so with a file, and keeps the notebook in use until there is another one.
USE = """{read}
import time
open("{folder}/read", "w").close()
while not os.path.exists("{folder}/seen"):
    time.sleep(0.1)
os.remove("{folder}/read")
"""
#: A job that holds its memory until there is a file.
TRAINING = """{hold}
import time
while not os.path.exists("{folder}/enough"):
    time.sleep(0.1)
{read}"""


@dataclass(kw_only=True)
class Loan:
    """A notebook of ann's whose share is lent to a job of bob's."""

    ann: Person
    bob: Person
    folder: Path
    kernel: str
    bobs_kernel: str
    #: Id of the job, and the last views of it and of the notebook.
    job: str = ""
    seen: dict = field(default_factory=dict)

    async def send(self, source):
        options = {"queue": "nlp", "gpus": "1"}
        sent = await self.bob.send(make_notebook(source), "digits.ipynb", self.bobs_kernel, "cell", **options)
        self.job = sent["id"]

    async def comes_to(self, of_notebook, *of_job):
        async def is_there():
            self.seen.update(notebook=await share_of(self.ann), job=await self.bob.job(self.job))
            return self.seen["notebook"]["phase"] == of_notebook and self.seen["job"]["phase"] in of_job

        await eventually(is_there, lambda: f"{of_notebook}, {of_job}: {self.seen}", seconds=180, every=0.3)

    async def is_held(self, mib):
        """Wait until one program holds so much of the GPU, and nothing else holds any."""
        await eventually(lambda: held(self.folder) == [mib], lambda: f"{mib} MiB: {held(self.folder)}", seconds=60)

    @asynccontextmanager
    async def used(self):
        """Let a cell read the kernel's memory as soon as it can, and use the notebook until the end of the block."""
        seen = self.folder / "seen"
        async with run_alongside(self.ann.run_cell(self.kernel, USE.format(folder=self.folder, read=READ))) as cell:
            yield (self.folder / "read").exists
            seen.touch()
            assert await cell == "4711\n", "the cell waited, and its memory is as before"
        seen.unlink()


async def test_what_kernel_and_borrower_hold_on_the_gpu_comes_back_each_time():
    async with (
        running_hub(*SETTINGS, users=("ann", "bob"), memory=DEVICE) as (url, folder),
        Person(url, "ann") as ann,
        Person(url, "bob") as bob,
    ):
        await asyncio.gather(ann.start_server("1"), bob.start_server("0"))
        kernel = await ann.start_kernel("digits.ipynb")
        await ann.run_cell(kernel, HOLD.format(folder=folder, number=4711, mib=KERNEL))
        bobs = await bob.start_kernel("digits.ipynb")
        loan = Loan(ann=ann, bob=bob, folder=folder, kernel=kernel, bobs_kernel=bobs)
        hold = HOLD.format(folder=folder, number=815, mib=JOB)
        training = TRAINING.format(folder=folder, hold=hold, read=READ)
        await loan.send(training)
        await is_suspended_and_goes_on(loan)
        await loan.send(training)
        await is_ended_if_the_driver_cannot_lock_it(loan)


async def is_suspended_and_goes_on(loan):
    """The job is suspended while a cell uses the share, and goes on to its end while the notebook is idle again."""
    await loan.comes_to("suspended", "running")
    assert loan.seen["notebook"]["suspension"]["memory_mib"] == KERNEL
    await loan.is_held(JOB)
    async with loan.used():
        await loan.comes_to("running", "paused")
        assert loan.seen["job"]["pause"]["way"] == "suspended"
        await loan.is_held(KERNEL)

    await loan.comes_to("suspended", "running")
    await loan.is_held(JOB)
    assert loan.seen["job"]["run"] == 1
    enough = loan.folder / "enough"
    enough.touch()
    await loan.comes_to("suspended", "done")
    document = await loan.bob.ask_service("GET", f"jobs/{loan.job}/notebook")
    assert "815\n" in str(document["cells"]).replace("\\n", "\n")
    enough.unlink()


async def is_ended_if_the_driver_cannot_lock_it(loan):
    """The driver cannot lock this job, whose code never asks whether it should stop: it is ended in time."""
    await loan.comes_to("suspended", "running")
    await loan.is_held(JOB)
    (of_job,) = [file for file in programs(loan.folder) if file.read_text().startswith(f"0 {JOB << 20} ")]
    of_job.with_suffix(".busy").touch()
    async with loan.used() as has_read:

        async def is_told():
            loan.seen.update(notebook=await share_of(loan.ann))
            return has_read() or f"within about {WITHIN} s" in loan.seen["notebook"]["sentence"]

        await eventually(is_told, lambda: f"the promise: {loan.seen}")
        await eventually(has_read, lambda: f"the share: {loan.seen}", seconds=10, promised=WITHIN)
        await loan.comes_to("running", "paused")
        assert loan.seen["job"]["pause"]["way"] == "restart"
        await loan.is_held(KERNEL)


def held(folder):
    """Return the MiB that each program has on the fake GPU, without those that are suspended or have ended."""
    states = [file.read_text().split() for file in programs(folder)]
    return [int(size) >> 20 for state, size, *_ in states if int(state) < 2]


def programs(folder):
    """Return the files of the programs that the fake driver knows and that have not ended."""
    files = [file for file in (folder / "driver").glob("[0-9]*") if file.name.isdecimal()]
    found = [(file, read_process(int(file.name))) for file in files]
    return [file for file, process in found if process is not None and not process.dead]
