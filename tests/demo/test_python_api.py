"""What code in a notebook does with jobs, with a real Hub, service, Jupyter server, kernels and runners."""

import asyncio
import contextlib
import textwrap

from jupyter_gq.demo.person import DemoCellFailed, Person
from tests.browser.world import running_demo
from tests.docs.blocks import blocks


@contextlib.asynccontextmanager
async def a_kernel():
    """Yield a function that runs code in a kernel of ann's and returns what it printed."""
    async with running_demo(epochs=10) as hub, Person(hub.url, "ann") as ann:
        await ann.start_server("0")
        kernel = await ann.start_kernel("digits.ipynb")

        async def run(code: str) -> str:
            return await ann.run_cell(kernel, textwrap.dedent(code))

        yield run


def test_a_cell_sends_itself_and_what_ran_before_runs_first():
    asyncio.run(send_cells())


async def send_cells() -> None:
    async with a_kernel() as run:
        await run("import time\nstart = 40")
        with contextlib.suppress(DemoCellFailed):
            await run("1 / 0")
        said = await run("""\
            %%train --gpus 0.5 --queue vision --returns answer,where --wait
            import os
            print("in the job", start)
            answer, where = start + 2, "GQ_RUN_DIR" in os.environ
        """)
        assert "in the job 40" in said
        assert await run("print(answer, where)") == "42 True\n", "what comes back is assigned"
        await run("%%train --gpus 0 --queue vision --name sleepy\ntime.sleep(3600)")
        listed = await run("jobs = %gq_jobs\nprint(jobs)")
        job = next(line.split()[0] for line in listed.splitlines() if "sleepy" in line)
        assert await run(f"import jupyter_gq\njupyter_gq.job('{job}').cancel()") == ""
        said = await run(f"print(jupyter_gq.job('{job}').wait(300))\njobs = %gq_jobs\nprint(jobs)")
        assert "cancelled\nNo job of yours waits or runs." in said
        assert "--returns NAMES" in await run("%%train --help\npass")
        assert "There is no training queue named 'none'" in await run("%%train --queue none\npass")


def test_a_sweep_runs_in_turns_and_its_table_has_the_best_first():
    asyncio.run(send_a_sweep())


async def send_a_sweep() -> None:
    """Send the sweep of the page docs/how-to/run-a-sweep.md, and others."""
    (example,) = (block for block in blocks() if block.page.name == "run-a-sweep.md" and block.mark == "run by")
    async with a_kernel() as run:
        await run(example.text)
        said = await run("""
            most = 0
            while not sweep.wait(0.2):
                active = {"starting", "running"}
                most = max(most, sum(job["phase"] in active for job in sweep.list_views()))
            print(most <= 2, [job["lr"] for job in sweep.table().to_dict("records")])
            print(sweep.table()["loss"].tolist(), sweep.best().result())
            print(len(jupyter_gq.find_sweep(sweep.id, metric="loss").jobs))
        """)
        assert said.splitlines() == [
            "True [0.1, 0.2, 0.1, 0.2]",
            "[1.0, 1.01, 2.0, 2.01] {'loss': 1.0, 'size': 2}",
            "4",
        ]
        said = await run("""
            import os, time
            go_on = os.path.abspath("go-on")
            def waits(n):
                if n == 0:
                    while not os.path.exists(go_on):
                        time.sleep(0.1)
                    return 1
                if n == 1:
                    raise ValueError("no")
                time.sleep(3600)
            sweep = jupyter_gq.sweep(waits, {"n": [0, 1, 2, 3]}, gpus=0, queue="vision", parallel=1)
            print(sweep.cancel(keep_best=1))
            open(go_on, "w").close()
            while not sweep.cancel(keep_best=1):
                sweep.wait(0.5)
            print(sweep.wait(300), sorted(job.last_status for job in sweep.jobs))
            print(sweep.table()["state"].tolist()[0])
        """)
        assert said.splitlines()[0] == "0"
        assert said.splitlines()[-1] == "done"


def test_a_function_runs_as_a_job_and_its_value_or_its_error_comes_back():
    asyncio.run(send_functions())


async def send_functions() -> None:
    """Send the function of the page docs/how-to/send-functions.md, and others."""
    (example,) = (block for block in blocks() if block.page.name == "send-functions.md" and block.mark == "run by")
    async with a_kernel() as run:
        await run(example.text)
        assert "{'loss': 0.0147" in await run("print(job.result(300))")
        await run("""
            import jupyter_gq, os
            from pathlib import Path
            Path("layers.py").write_text("WIDTH = 7\\ndef size(n):\\n    return WIDTH * n\\n")
            import layers
            class Model:
                def __init__(self, size, folder):
                    self.size, self.folder = size, folder
            def train(n, *, lr):
                print("lr is", lr)
                return Model(layers.size(n), os.getcwd())
            job = jupyter_gq.submit(train, 3, lr=0.5, gpus=0.5, queue="vision")
            Path("layers.py").unlink()
        """)
        said = await run("""
            model = job.result(300)
            print(type(model) is Model or type(model), model.size, model.folder == os.getcwd(), job.status)
            print(job.logs().strip())
            print(job.cost > 0, jupyter_gq.job(job.id).name)
        """)
        assert "21 True done" in said
        assert "lr is 0.5" in said
        assert "True train" in said
        said = await run("""
            def fails(x):
                return x / 0
            try:
                jupyter_gq.submit(fails, 1, gpus=0, queue="vision").result(300)
            except jupyter_gq.JobFailed as error:
                print(error)
        """)
        assert "has failed" in said
        assert "ZeroDivisionError: division by zero" in said
        assert "return x / 0" in said, "the traceback shows the line of the function"
        said = await run("""
            import time
            job = jupyter_gq.submit(time.sleep, 3600, gpus=0, queue="vision")
            print(job.wait(0.1))
            job.cancel()
            print(job.wait(120))
            job.cancel()
        """)
        assert said.split()[-1] == "cancelled"
