"""Cells run in order in a new kernel, and their outputs arrive."""

import base64
import json
import shutil
import stat
import sys
import time
from pathlib import Path

import nbformat
import pytest

from tests.patience import scaled

from .conftest import Job, Service, eventually


def test_prefix_and_target_run_in_order_and_the_output_arrives(job: Job, service: Service) -> None:
    job.prefix("x = 20").target("print(x + 1)\nx + 2")
    assert job.run()["outcome"] == "SUCCEEDED"
    outputs = service.outputs()
    assert [output["output_type"] for output in outputs] == ["stream", "execute_result"]
    assert outputs[0]["text"] == "21\n"
    assert outputs[1]["data"]["text/plain"] == "22"
    pieces = service.pieces()
    assert [piece["seq"] for piece in pieces] == list(range(1, len(pieces) + 1))
    assert {piece["run"] for piece in pieces} == {1}
    told = [(p["op"], p.get("cell"), p.get("state")) for p in pieces if p["op"] in ("run", "cell")]
    assert told == [
        ("run", None, "start"),
        ("run", None, "ready"),
        ("cell", "prefix", "start"),
        ("cell", "prefix", "end"),
        ("cell", "target", "start"),
        ("cell", "target", "end"),
    ]


def test_executed_notebook_is_valid_and_holds_the_outputs(job: Job, service: Service) -> None:
    job.prefix("a = 1").target("print('hello')\na")
    job.run()
    notebook = nbformat.read(job.folder / "output.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert [cell["execution_count"] for cell in notebook.cells] == [1, 2]
    assert [dict(output) for output in notebook.cells[1].outputs] == service.outputs()
    assert notebook.metadata.language_info.name == "python"
    # The binding of a cell to an older job must not travel into the result.
    assert "jupyter_gq" not in notebook.cells[1].metadata


def test_a_question_for_jobs_does_not_end_the_job_that_replays_it(job: Job, service: Service) -> None:
    job.prefix("%load_ext jupyter_gq\n%gq_jobs").target("jobs = %gq_jobs --all\nprint(jobs)")
    assert job.run()["outcome"] == "SUCCEEDED"
    assert service.text() == "Within a job, no jobs are listed.\n"


def test_displays_updates_and_clears_arrive_as_a_notebook_would_show_them(job: Job, service: Service) -> None:
    job.target(
        "from IPython.display import display, clear_output, HTML\n"
        "import time\n"
        "print('gone')\n"
        "clear_output()\n"
        "h = display(HTML('<b>0</b>'), display_id=True)\n"
        "print('between')\n"
        "time.sleep(0.3)\n"
        "h.update(HTML('<b>1</b>'))\n"
        "time.sleep(0.3)\n"
        "print('10%', end=''); time.sleep(0.2); print('\\r20%', end='')\n"
        "import sys; print('warning', file=sys.stderr)\n"
    )
    job.run()
    html, text, warning = service.outputs()
    assert html["data"]["text/html"] == "<b>1</b>"
    assert text["text"] == "between\n20%"
    assert warning == {"output_type": "stream", "name": "stderr", "text": "warning\n"}


def test_an_image_arrives_whole(job: Job, service: Service) -> None:
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(100_000)).decode()
    job.target(
        "from IPython.display import display, Image\n"
        "display(Image(data=b'\\x89PNG\\r\\n\\x1a\\n' + bytes(100_000), format='png'))"
    )
    job.run()
    assert service.outputs()[0]["data"]["image/png"].replace("\n", "") == png


def test_output_arrives_while_the_cell_runs(job: Job, service: Service) -> None:
    job.target("import time\nprint('early', flush=True)\ntime.sleep(60)")
    job.start()
    eventually(lambda: "early" in service.text())
    eventually(lambda: (job.folder / "output.ipynb").exists())
    assert "early" in (job.folder / "output.ipynb").read_text()


def test_progress_and_heartbeats_arrive(job: Job, service: Service) -> None:
    job.target("import jupyter_gq\njupyter_gq.progress(30, 120, 'epoch 30')\nassert jupyter_gq.in_job()")
    assert job.run()["outcome"] == "SUCCEEDED"
    assert service.beats()[-1] == {"run": 1, "progress": {"fraction": 0.25, "text": "epoch 30"}, "saved_at": None}


def test_time_of_the_last_checkpoint_is_reported(job: Job, service: Service) -> None:
    job.target(
        "import os, pathlib\n"
        "kept = pathlib.Path(os.environ['GQ_CHECKPOINT_DIR']) / 'state'\n"
        "kept.write_text('epoch 3')\n"
        "print(kept.stat().st_mtime)"
    )
    assert job.run()["outcome"] == "SUCCEEDED"
    assert service.beats()[-1]["saved_at"] == pytest.approx(float(service.text()), abs=1)


def test_variables_of_the_kernelspec_are_read_on_this_machine(job: Job, service: Service, tmp_path: Path) -> None:
    spec = {"argv": [], "env": {"FROM_SPEC": "${JUPYTER_GQ_GPUS}!", "NOT_NAMED": "x"}}
    (tmp_path / "kernel.json").write_text(json.dumps(spec))
    job.env = {"JUPYTER_GQ_GPUS": "0.25"}
    job.kernel = {**job.kernel, "env_names": ["FROM_SPEC", "GONE"], "resource_dir": str(tmp_path)}
    job.target("import os\nprint(os.environ['FROM_SPEC'], 'NOT_NAMED' in os.environ, 'GONE' in os.environ)")
    job.run()
    assert service.text() == "0.25! False False\n"
    assert "does not set GONE" in job.log()


def test_kernel_has_its_folder_and_its_share_but_not_the_token(job: Job, service: Service) -> None:
    job.env = {"JUPYTER_GQ_GPUS": "0.25", "CUDA_VISIBLE_DEVICES": "GPU-1"}
    job.kernel = {**job.kernel, "env": {"FROM_SPEC": "${JUPYTER_GQ_GPUS}!"}}
    job.target(
        "import os, pathlib\n"
        "print(os.getcwd())\n"
        "print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['FROM_SPEC'], os.environ['GQ_JOB_ID'])\n"
        "print(os.environ['GQ_CHECKPOINT_DIR'], os.environ['GQ_RUN_DIR'])\n"
        "print([n for n, v in os.environ.items() if 'secret-of' in v or n in ('GQ_SERVICE_URL', 'GQ_LAST_SEQ')])\n"
        "print(list(pathlib.Path(os.environ['GQ_RUN_DIR']).glob('token')))"
    )
    job.run()
    assert service.text().splitlines() == [
        str(job.cwd),
        "GPU-1 0.25! job-1",
        f"{job.folder / 'checkpoint'} {job.run_folder()}",
        "[]",
        "[]",
    ]


def test_a_cell_that_ran_twice_is_replayed_twice_under_different_ids(job: Job, service: Service) -> None:
    job.prefix("n = 1", "setup").prefix("n += 1\nprint(n)", "setup").target("print('n is', n)", "setup")
    assert job.run()["outcome"] == "SUCCEEDED"
    assert service.text("setup") == "n is 2\n"


def test_modules_in_the_user_s_folder_are_imported_by_the_kernel_only(job: Job, service: Service) -> None:
    """A user's file that is named like a module of Python does not break the runner."""
    job.cwd.mkdir()
    for name in ("argparse", "nbclient", "json"):
        (job.cwd / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    (job.cwd / "mine.py").write_text("answer = 42")
    job.target("import mine\nprint(mine.answer)")
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert service.text() == "42\n"


def test_files_of_the_cells_are_as_from_a_notebook(job: Job, service: Service) -> None:
    """The runner itself keeps its files private."""
    job.umask = 0o077
    job.target("open('model', 'w').close()")
    assert job.run()["outcome"] == "SUCCEEDED"
    assert stat.S_IMODE((job.cwd / "model").stat().st_mode) == 0o644
    assert stat.S_IMODE((job.folder / "output.ipynb").stat().st_mode) == 0o600


def test_kernel_of_another_language_runs_the_cells(job: Job, service: Service, tmp_path) -> None:
    script = tmp_path / "shouting_kernel.py"
    script.write_text(
        "from ipykernel.kernelbase import Kernel\n"
        "from ipykernel.kernelapp import IPKernelApp\n"
        "class Shouting(Kernel):\n"
        "    implementation = implementation_version = banner = 'shouting'\n"
        "    language_info = {'name': 'shouting', 'mimetype': 'text/plain', 'file_extension': '.txt'}\n"
        "    async def do_execute(self, code, silent, store_history=True, user_expressions=None, **kw):\n"
        "        self.send_response(self.iopub_socket, 'stream', {'name': 'stdout', 'text': code.upper()})\n"
        "        return {'status': 'ok', 'execution_count': self.execution_count, 'payload': [],\n"
        "                'user_expressions': {}}\n"
        "IPKernelApp.launch_instance(kernel_class=Shouting)\n"
    )
    job.kernel = {
        "name": "shouting",
        "display_name": "Shouting",
        "language": "shouting",
        "argv": [sys.executable, str(script), "-f", "{connection_file}"],
        "env": {},
    }
    job.prefix("let x be 1").target("say x")
    assert job.run()["outcome"] == "SUCCEEDED"
    assert service.text() == "SAY X"


def test_kernel_that_knows_no_socket_files_is_reached_through_ports(job: Job, service: Service, tmp_path) -> None:
    script = tmp_path / "ports_only.py"
    script.write_text(
        "import json, runpy, sys\n"
        "if json.load(open(sys.argv[-1]))['transport'] != 'tcp': sys.exit('I know tcp only')\n"
        "runpy.run_module('ipykernel_launcher', run_name='__main__', alter_sys=True)\n"
    )
    argv = [sys.executable, str(script), "-f", "{connection_file}"]
    job.kernel = {"name": "ports", "display_name": "Ports", "language": "ports", "argv": argv, "env": {}}
    job.target("print('reached')")
    assert job.run()["outcome"] == "SUCCEEDED"
    assert service.text() == "reached\n"


def test_other_tasks_of_a_gang_run_the_same_cells_and_only_log(job: Job, service: Service) -> None:
    job.env = {"RANK": "1"}
    job.prefix("import os").target("print('rank', os.environ['RANK'])")
    assert job.run(task=1)["outcome"] == "SUCCEEDED"
    assert "rank 1" in job.log(task=1)
    assert service.pieces() == []
    assert not (job.folder / "output.ipynb").exists()


def test_progress_bar_made_of_widgets_is_shown_as_text(job: Job, service: Service) -> None:
    """tqdm shows such widgets in a notebook. Widgets that cannot be rendered as text keep the kernel's own text."""
    job.prefix(
        "from comm import create_comm\n"
        "from IPython.display import display\n"
        "def widget(name, **state):\n"
        "    state |= {'_model_name': name, '_model_module': '@jupyter-widgets/controls'}\n"
        "    return create_comm(target_name='jupyter.widget', data={'state': state})\n"
        "def show(comm, text):\n"
        "    view = {'application/vnd.jupyter.widget-view+json': {'model_id': comm.comm_id}, 'text/plain': text}\n"
        "    display(view, raw=True)\n"
    ).target(
        "label, bar = widget('HTMLModel', value='&nbsp;0%'), widget('FloatProgressModel', value=0, max=4)\n"
        "box = widget('HBoxModel', children=['IPY_MODEL_' + label.comm_id, 'IPY_MODEL_' + bar.comm_id])\n"
        "show(box, 'HBox(...)')\n"
        "show(widget('SliderModel', value=3), 'Slider(3)')\n"
        "bar.send(data={'method': 'update', 'state': {'value': 3.0}})\n"
        "label.send(data={'method': 'update', 'state': {'value': '<b>75%</b>'}})\n"
    )
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert [output["data"] for output in service.outputs()] == [
        {"text/plain": "75% |███████████████     |"},
        {"text/plain": "Slider(3)"},
    ]


def test_first_output_arrives_within_the_goal(job: Job, service: Service) -> None:
    """From the start of the runner to the first piece of the target in the service; the goal is 0.9 s when idle."""
    job.target("print('x')")
    job.run()  # fills the caches
    job.service.file.unlink()
    shutil.rmtree(job.folder)
    begun = time.perf_counter()
    job.start(run=1)
    eventually(lambda: service.text() == "x\n")
    took = time.perf_counter() - begun
    print(f"first output after {took:.2f} s")
    assert took < scaled(20)  # far above the goal: other tests may use this machine; the benchmark measures it


def test_what_a_task_of_an_earlier_cell_prints_is_under_that_cell(job: Job, service: Service) -> None:
    job.target(
        "import asyncio\nfrom IPython.display import display\nshown = display('begins', display_id=True)\n"
        "async def tick():\n    for n in range(3):\n        await asyncio.sleep(0.01)\n        print('tick', n)\n"
        "    shown.update('ends'); display('displayed')\nticking = asyncio.ensure_future(tick())",
        "starts",
    )
    job.target("await ticking\nprint('the end')", "waits")
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    texts = [output.get("text") or output["data"]["text/plain"] for output in service.outputs("starts")]
    assert texts == ["'ends'", "tick 0\ntick 1\ntick 2\n", "'displayed'"]
    assert service.text("waits") == "the end\n"
    assert job.notebook()["cells"][0]["outputs"] == service.outputs("starts")
    assert "tick 2" in job.log()
