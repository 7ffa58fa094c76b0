"""A kernel of the server sends functions as jobs and asks about them, through the socket and without a token."""

import re
import textwrap

import pytest

from jupyter_gq.domain.job_names import calls_function
from jupyter_gq.lab.kernel_requests import VALUE_MIME
from tests.patience import eventually, scaled
from tests.server.service import QUEUE, a_job
from tests.server.test_kernels import Kernel


@pytest.fixture
def kernel(jp_asyncio_loop, on_hub, jp_serverapp, extension, tmp_path, jp_root_dir):
    """Return a kernel of a notebook of this server."""
    kernel = Kernel(jp_serverapp)
    (jp_root_dir / "folder").mkdir()

    async def start():
        extension.kernel_socket.start()
        session = await jp_serverapp.session_manager.create_session(
            path="folder/a.ipynb", name="a.ipynb", type="notebook", kernel_name="python3"
        )
        kernel.id = session["kernel"]["id"]
        await kernel.connect()
        await kernel.run(f"import os; os.chdir({str(tmp_path)!r}); import jupyter_gq")

    jp_asyncio_loop.run_until_complete(start())
    yield kernel
    jp_asyncio_loop.run_until_complete(kernel.stop())


async def run(kernel, code):
    """Run code in the kernel; return what it printed, and its error if it failed."""
    said = []

    def listen(message):
        content = message["content"]
        said.append(content.get("text", "") + content.get("evalue", ""))

    await kernel.client.execute_interactive(textwrap.dedent(code), timeout=scaled(120), output_hook=listen)
    return "".join(said)


async def watch_and_load(extension, kernel):
    """Watch the kernel and load the magics in it, again until the watch has heard of that: it subscribes meanwhile."""

    async def is_heard():
        await run(kernel, "%reload_ext jupyter_gq")
        return extension.watch.get_history(kernel.id).cells

    extension.watch.start()
    await eventually(is_heard, "the watch of the kernel")


async def test_a_function_becomes_a_job_of_the_kernel_and_its_folder(service, kernel, tmp_path):
    said = await run(
        kernel,
        """
        def train(lr):
            return lr
        job = jupyter_gq.submit(train, lr=0.5, gpus=0.25, name="first", memory="2 GiB", check=False)
        print(job.id)
        """,
    )
    assert said == "job-0\n"
    body = next(body for body in service.bodies if body and "bundle" in body)
    manifest, cells = body["bundle"]["manifest"], body["bundle"]["notebook"]["cells"]
    assert (body["queue"], body["gpus"], body["name"], body["memory"]) == ("vision", 0.25, "first", "2 GiB")
    assert (manifest["cwd"], manifest["notebook_path"]) == (str(tmp_path), "folder/a.ipynb")
    assert (manifest["returns"], manifest["own_folder"]) == (["returned"], False)
    assert [cell["source"].splitlines()[0] for cell in cells] == [
        "# train(lr=0.5): the function and its arguments, as jupyter_gq.submit has pickled them.",
        "# train(lr=0.5)",
    ]
    assert [ref["cell_id"] for ref in manifest["targets"]] == ["call"]
    assert calls_function(manifest)
    said = await run(kernel, "\n".join(cell["source"] for cell in cells) + "\nprint(returned)")
    assert said.endswith("0.5\n"), "what was sent runs"


async def test_functions_take_files_of_the_present_folder_along_as_cells_do(service, kernel, tmp_path):
    (tmp_path / "conf").mkdir()
    for name in ("a.yaml", "conf/b.json", "c.txt"):
        (tmp_path / name).write_text("rate: 1")
    patterns = "also=['*.yaml', 'conf/', '*.csv']"
    told = "'*.csv' matches no file in the notebook's folder; ignored and hidden folders are not searched.\n"
    assert await run(kernel, f"job = jupyter_gq.submit(print, {patterns}, check=False)") == told
    assert await run(kernel, f"swept = jupyter_gq.sweep(dict, {{'lr': [1, 2]}}, {patterns}, check=False)") == told
    assert await run(kernel, "job = jupyter_gq.submit(print, also='*.txt', check=False)") == ""
    sent_files = [body["bundle"]["manifest"]["files"] for body in service.bodies if body and "bundle" in body]
    both = ["a.yaml", "conf/b.json"]
    assert [[file["path"] for file in files] for files in sent_files] == [both, both, both, ["c.txt"]]


async def test_with_several_queues_the_user_names_one(service, kernel):
    both = {"queues": [QUEUE, {**QUEUE, "name": "nlp"}, {**QUEUE, "name": "bio", "member": False}]}
    service.answers["GET", "queues"] = (200, both)
    said = await run(kernel, "jupyter_gq.submit(print, check=False)")
    assert "Which queue? Name it with queue. Yours are vision, nlp." in said
    await run(kernel, "%reload_ext jupyter_gq")
    assert "Which queue? Name it with --queue. Yours" in await run(kernel, "%%train\nmodel = 1")
    assert not [body for body in service.bodies if body and "bundle" in body]


async def test_a_refusal_of_the_service_is_the_error(service, kernel):
    service.answers["POST", "jobs"] = (422, {"code": "never_fits", "message": "No node has 99 GPUs.", "field": "gpus"})
    assert "No node has 99 GPUs." in await run(kernel, "jupyter_gq.submit(print, gpus=99, check=False)")


def output(seq, cell, **fields):
    return {"seq": seq, "run": 1, "at": 1.0, "op": "append", "cell": cell, "role": "target", "output": fields}


async def test_outputs_come_as_text_with_the_error_apart(service, kernel):
    failed = output(2, "call", output_type="error", ename="ValueError", evalue="no", traceback=["\x1b[31mline 3", "no"])
    printed = output(1, "call", output_type="stream", name="stdout", text="lr is 1\n")
    pages = iter([[printed], [failed], []])
    service.answer = lambda method, path, body: (200, {"events": next(pages), "last_seq": 2, "finished": True})
    said = await run(
        kernel,
        "from jupyter_gq.notebook.server import find_server; print(find_server().get('jobs', 'job-7f3', 'text'))",
    )
    assert eval(said) == {"text": "lr is 1\nline 3\nno", "error": "line 3\nno"}


async def test_a_cell_that_waits_for_a_failed_job_shows_its_traceback_once_and_no_code_of_this_package(service, kernel):
    events = [
        output(1, "call", output_type="stream", name="stdout", text="lr is 1\n"),
        output(2, "call", output_type="error", ename="ValueError", evalue="no", traceback=["line 3", "ValueError: no"]),
    ]
    pages, answer = iter([events, [], events, []]), service.answer

    def answer_with_outputs(method, path, body):
        if path != "jobs/job-0/outputs":
            return answer(method, path, body)
        return 200, {"events": next(pages), "last_seq": 2, "finished": True}

    service.answer = answer_with_outputs
    service.answers["GET", "jobs/job-0"] = (200, a_job(id="job-0", phase="failed", sentence="ValueError in cell 1."))
    await run(kernel, "%reload_ext jupyter_gq")
    said = []
    await kernel.client.execute_interactive(
        "%%train --queue vision --no-replay --wait\nraise ValueError('no')",
        timeout=scaled(120),
        output_hook=lambda message: said.append(message["content"]),
    )
    printed = "".join(each.get("text", "") for each in said)
    (shown,) = (each["traceback"] for each in said if "traceback" in each)
    assert printed.endswith("lr is 1\n")
    assert "\n".join(shown) == (
        "JobFailed: The job 'Digits' (job-0) has failed. ValueError in cell 1.\n\nline 3\nValueError: no"
    )


async def test_a_cell_that_waits_names_the_files_of_its_job(service, kernel):
    service.answers["GET", "jobs/job-0/outputs"] = (200, {"events": [], "last_seq": 0, "finished": True})
    service.answers["GET", "jobs/job-0"] = (200, a_job(id="job-0", phase="done", sentence="Done."))
    files = [{"path": f"ckpt/{number}.pt", "bytes": 1} for number in range(7)]
    service.answers["GET", "jobs/job-0/results"] = (200, {"files": files})
    await run(kernel, "%reload_ext jupyter_gq")
    said = await run(kernel, "%%train --queue vision --no-replay --wait\nsave()")
    assert "Files of the job: ckpt/0.pt, ckpt/1.pt, ckpt/2.pt, ckpt/3.pt, ckpt/4.pt and 2 more. " in said
    assert 'jupyter_gq.job("job-0").download() copies them here.' in said


async def test_code_that_asks_for_the_result_of_a_failed_job_is_shown_with_the_cause_of_its_error(service, kernel):
    service.answers["GET", "jobs/job-7f3"] = (200, a_job(phase="failed", sentence="ValueError in cell 1."))
    code = """
        try:
            {}["best"]
        except KeyError as missing:
            try:
                jupyter_gq.job("job-7f3").result()  # of the user
            except jupyter_gq.JobFailed as failed:
                raise failed from missing
        """
    said = []
    await kernel.client.execute_interactive(
        textwrap.dedent(code),
        timeout=scaled(120),
        output_hook=lambda message: said.append(message["content"]),
    )
    (shown,) = (re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(each["traceback"])) for each in said if "traceback" in each)
    assert "# of the user" in shown
    assert "KeyError: 'best'" in shown
    assert "JobFailed: The job 'Digits' (job-7f3) has failed. ValueError in cell 1." in shown


async def test_the_value_of_a_call_is_read_from_the_end_of_its_outputs(service, kernel):
    shown = output(4999, "call", output_type="display_data", data={VALUE_MIME: {"value": {"loss": 1}}}, metadata={})
    other = output(5000, "call", output_type="stream", name="stdout", text="bye")
    service.answers["GET", "jobs/job-7f3"] = (200, a_job(phase="done", last_seq=5000))
    service.answers["GET", "jobs/job-7f3/outputs"] = (
        200,
        {"events": [shown, other], "last_seq": 5000, "finished": True},
    )
    assert eval(await run(kernel, "print(jupyter_gq.job('job-7f3').result())")) == {"loss": 1}
    assert ("GET", "jobs/job-7f3/outputs?after=4800") in service.asked


async def test_the_newest_job_of_the_user_is_named_last(service, kernel):
    service.answers["GET", "jobs"] = (200, {"jobs": [a_job()]})
    assert (await run(kernel, "print(jupyter_gq.job('last').id)")) == "job-7f3\n"
    assert ("GET", "jobs?limit=1") in service.asked
    service.answers["GET", "jobs"] = (200, {"jobs": []})
    assert "You have no jobs." in await run(kernel, "jupyter_gq.job('last')")


async def test_a_job_is_cancelled(service, kernel):
    await run(kernel, "jupyter_gq.job('job-7f3').cancel()")
    assert ("DELETE", "jobs/job-7f3") in service.asked


async def test_a_job_is_changed_and_a_wrong_value_is_refused_by_this_server(service, kernel):
    service.answers["PATCH", "jobs/job-7f3"] = (200, a_job(tasks=4))
    await run(kernel, "jupyter_gq.job('job-7f3').change(tasks=4, gpus=0.5)")
    changed = {name: value for name, value in service.bodies[-1].items() if value is not None}
    assert changed == {"tasks": 4, "gpus": 0.5}
    asked = len(service.asked)
    said = await run(kernel, "try:\n    jupyter_gq.job('job-7f3').change(tasks=65)\nexcept Exception as e: print(e)")
    assert said.startswith("tasks: ")
    assert [method for method, _ in service.asked[asked:]] == ["GET"]


TRAIN = "%%train --gpus 0.5 --queue vision --returns model\nmodel = start"


async def announce(fetch, kernel, **cells):
    """Tell the server the ids of cells, as a page does when it runs them."""
    body = {"cells": [{"cell_id": name, "source": source} for name, source in cells.items()]}
    await fetch("POST", "kernels", kernel.id, "history", body=body)


def sent(service):
    """Return the last job that was sent."""
    return next(body for body in reversed(service.bodies) if body and "bundle" in body)


async def test_a_cell_sends_itself_with_what_ran_before_and_is_the_target(service, kernel, fetch, extension):
    await watch_and_load(extension, kernel)
    await announce(fetch, kernel, first="start = 1", failed="1 / 0", sender=TRAIN)
    await run(kernel, "start = 1")
    await run(kernel, "1 / 0")
    await run(kernel, TRAIN.replace("start", "other"))
    await run(kernel, TRAIN)
    body = sent(service)
    manifest, cells = body["bundle"]["manifest"], body["bundle"]["notebook"]["cells"]
    assert (body["gpus"], body["queue"], body["name"], manifest["returns"]) == ("0.5", "vision", "a", ["model"])
    assert [ref["cell_id"] for ref in manifest["targets"]] == ["sender"]
    sources = [cell["source"] for cell in cells]
    assert sources[-2:] == ["start = 1", "model = start"], "neither what failed nor what sent itself runs before"
    assert [ref["cell_id"] for ref in manifest["prefix"]][-1] == "first"


async def test_what_sends_jobs_is_left_out_of_the_cells_that_run_first(service, kernel, fetch, extension):
    await watch_and_load(extension, kernel)
    await run(kernel, "start, other = 1, jupyter_gq.job('job-7f3')")
    await run(kernel, "job = jupyter_gq.job('job-7f3')\nfactor = 2")
    await run(kernel, "job")
    said = await run(kernel, TRAIN.replace("= start", "= factor"))
    left_out = "# What sends jobs, or needs such a job, is left out: a job cannot send jobs."
    sources = [cell["source"] for cell in sent(service)["bundle"]["notebook"]["cells"]]
    assert sources[-4:] == [left_out, f"factor = 2\n{left_out}", left_out, "model = factor"]
    assert "a job cannot send jobs: these statements are left out" in said
    assert "Not defined in the job" not in said
    said = await run(kernel, TRAIN)
    assert "because what sends jobs makes it and is left out: start. Make it in a cell" in said


async def test_cells_with_the_same_note_have_one_line_that_names_them(service, kernel, extension):
    await watch_and_load(extension, kernel)
    for source in ("first = 1\nnext = 2", "second = 2"):
        await run(kernel, source)
    said = [line for line in (await run(kernel, "%%train --queue vision\ninput()")).splitlines() if line]
    (line,) = [line for line in said if "deleted" in line]
    assert line.startswith("Each of the cells [")
    assert line.endswith("] “second = 2” was deleted or changed since; runs as it ran here.")
    assert "] “first = 1”" in line
    assert any(each.startswith("This cell asks for input;") for each in said)


async def test_cells_of_a_notebook_that_was_moved_run_where_they_ran_here(
    service, kernel, fetch, jp_serverapp, jp_root_dir
):
    await run(kernel, "%reload_ext jupyter_gq")
    (jp_root_dir / "elsewhere").mkdir()
    (jp_root_dir / "folder" / "rows.csv").write_text("1")
    (session,) = await jp_serverapp.session_manager.list_sessions()
    await jp_serverapp.session_manager.update_session(session["id"], path="elsewhere/b.ipynb")
    await run(kernel, "%%train --queue vision\nrows = open('rows.csv').read()")
    manifest = sent(service)["bundle"]["manifest"]
    assert (manifest["notebook_path"], manifest["cwd"]) == ("elsewhere/b.ipynb", str(jp_root_dir / "folder"))
    assert [file["path"] for file in manifest["files"]] == ["rows.csv"]
    notebook = {"cells": [{"cell_type": "code", "id": "read", "source": "read()", "metadata": {}}], "metadata": {}}
    request = {"notebook_path": "elsewhere/b.ipynb", "notebook": notebook, "targets": ["read"], "kernel_id": kernel.id}
    _, plan = await fetch("POST", "check", body=request)
    folder = jp_root_dir / "folder"
    assert plan["files"]["notes"][0] == (
        f"This folder is '{folder}', where the kernel was started, not the folder of the notebook."
    )


async def test_without_replay_only_the_cell_runs(service, kernel, extension):
    await watch_and_load(extension, kernel)
    await run(kernel, "start = 1")
    await run(kernel, TRAIN.replace("--gpus", "--no-replay --gpus"))
    assert [cell["source"] for cell in sent(service)["bundle"]["notebook"]["cells"]] == ["model = start"]


async def test_what_a_cell_does_and_what_is_not_known_is_told_before_the_job_runs(service, kernel, extension):
    await run(kernel, "%reload_ext jupyter_gq")
    await run(kernel, "start = 1")
    extension.watch.start()
    said = await run(kernel, "%%train --queue vision\ninput()")
    assert "asks for input; nobody can answer in a job" in said
    assert "Not everything that ran in this kernel is known" in said


async def test_the_line_of_a_cell_names_all_that_the_command_line_does(service, kernel):
    await run(kernel, "%reload_ext jupyter_gq")
    options = (
        "--gpu-memory '12 GB' --prefer-model H200 --within rack --tasks 2 --min-tasks 1 --expected 90m --max-time 2h "
        "--continue-from 7f"
    )
    await run(kernel, f"%%train --queue vision {options} --secret HF_TOKEN\nmodel = 1")
    body = sent(service)
    fields = ("gpu_memory", "preferred_gpu_models", "within", "tasks", "min_tasks", "expected_seconds", "max_seconds")
    assert [body[field] for field in fields] == ["12 GB", ["H200"], "rack", 2, 1, 5400, 7200]
    assert (body["continue_from"], body["bundle"]["manifest"]["secrets"]) == ("job-7f3", ["HF_TOKEN"])


@pytest.mark.parametrize("named", ["last", "job-7f", "7", "job-7f3"])
async def test_a_job_is_named_in_a_kernel_as_on_the_command_line(service, kernel, named):
    assert await run(kernel, f"import jupyter_gq; print(jupyter_gq.job({named!r}).id)") == "job-7f3\n"


async def test_a_name_that_two_jobs_could_have_is_refused_in_a_kernel(service, kernel):
    service.answers["GET", "jobs"] = (200, {"jobs": [a_job(), a_job(id="job-7f4")]})
    await run(kernel, "%reload_ext jupyter_gq")
    said = await run(kernel, "%%train --queue vision --continue-from 7f\nmodel = 1")
    assert "2 jobs have an id that begins with '7f': job-7f3, job-7f4." in said
    service.answers["GET", "jobs"] = (200, {"jobs": [a_job(id=f"job-7f{number}") for number in range(7)]})
    said = await run(kernel, "%%train --queue vision --continue-from 7f\nmodel = 1")
    assert "7 jobs have an id that begins with '7f': job-7f0, job-7f1, job-7f2, job-7f3, job-7f4 and 2 more." in said
    said = await run(kernel, "%%train --queue vision --continue-from nothing\nmodel = 1")
    assert "No job of yours has an id that begins with 'nothing'. %gq_jobs --all lists them." in said
    assert not [asked for asked in service.asked if asked == ("POST", "jobs")]


async def test_files_that_fit_a_pattern_go_along_and_a_pattern_without_files_is_named(service, kernel, jp_root_dir):
    await run(kernel, "%reload_ext jupyter_gq")
    (jp_root_dir / "folder" / "conf").mkdir()
    for name in ("a.yaml", "conf/b.json", "c.txt"):
        (jp_root_dir / "folder" / name).write_text("rate: 1")
    said = await run(kernel, "%%train --queue vision --also '*.yaml' --also conf/ --also '*.csv'\nmodel = 1")
    assert [file["path"] for file in sent(service)["bundle"]["manifest"]["files"]] == ["a.yaml", "conf/b.json"]
    told = "'*.csv' matches no file in the notebook's folder; ignored and hidden folders are not searched."
    assert [line for line in said.splitlines() if "matches" in line] == [told]


async def test_a_job_that_begins_in_an_empty_folder_says_so(service, kernel, tmp_path):
    service.files |= {"reached": ["/data"]}
    told = "No file goes along, and the job does not reach this folder: it begins in an empty one."
    assert await run(kernel, "job = jupyter_gq.submit(print, check=False)") == f"{told}\n"
    assert await run(kernel, "swept = jupyter_gq.sweep(dict, {'lr': [1, 2]}, check=False)") == f"{told}\n"
    await run(kernel, "%reload_ext jupyter_gq")
    assert told in (await run(kernel, "%%train --queue vision\nmodel = 1")).splitlines()
    (tmp_path / "a.yaml").write_text("rate: 1")
    assert await run(kernel, "job = jupyter_gq.submit(print, also='*.yaml', check=False)") == ""


async def test_a_cell_is_not_sent_from_a_folder_that_was_deleted(service, kernel, tmp_path):
    await run(kernel, "%reload_ext jupyter_gq")
    (tmp_path / "gone").mkdir()
    await run(kernel, "os.chdir('gone'); os.rmdir(os.getcwd())")
    said = await run(kernel, "%%train --queue vision\nmodel = 1")
    assert "The working folder of this kernel was deleted" in said
    assert not [body for body in service.bodies if body and "bundle" in body]


async def test_the_jobs_of_a_group_are_asked_for_alone(service, kernel):
    page = {"jobs": [a_job(group="sweep-1")], "next": None}
    service.answers["GET", "jobs"] = (200, page)
    assert await run(kernel, "print(len(jupyter_gq.find_sweep('sweep-1').jobs))") == "1\n"
    assert ("GET", "jobs?limit=500&group=sweep-1") in service.asked
    await run(kernel, "%reload_ext jupyter_gq")
    assert "job-7f3" in await run(kernel, "jobs = %gq_jobs --group sweep-1\nprint(jobs)")
    assert service.asked[-1] == ("GET", "jobs?limit=500&group=sweep-1")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%%train --gpu-count 3", "unrecognized arguments: --gpu-count 3"),
        ("%%train --gpus '1", "The line cannot be read: No closing quotation"),
        ("%train --help", "--returns NAMES"),
        ("%train --gpus 1", "%train has no cell to send. Write %%train above the code"),
        ("%%train --max-time soon", "'soon' is no length of time"),
        ("%%train --queue vision --returns a.b", "'a.b' is not the name of a variable"),
    ],
)
async def test_a_line_that_is_wrong_sends_nothing_and_says_what_is_right(service, kernel, line, words):
    await run(kernel, "%reload_ext jupyter_gq")
    assert words in await run(kernel, line + "\nmodel = 1")
    assert not [body for body in service.bodies if body and "bundle" in body]


async def test_a_cell_with_a_syntax_error_is_not_sent(service, kernel):
    await run(kernel, "%reload_ext jupyter_gq")
    assert "Syntax error" in await run(kernel, "%%train --queue vision\nfor")
    assert not [body for body in service.bodies if body and "bundle" in body]


async def test_jobs_are_listed_and_ended_ones_on_request(service, kernel):
    await run(kernel, "%reload_ext jupyter_gq")
    runs = a_job(id="job-runs", phase="running", sentence="Running on 1 GPU.")
    listed = [a_job(), a_job(id="job-old", name="before", phase="done"), runs]
    service.answers["GET", "jobs"] = (200, {"jobs": listed})
    said = await run(kernel, "jobs = %gq_jobs\nprint(jobs)")
    assert "job-7f3   waiting  Digits  vision  1     1st in line." in said
    assert "job-old" not in said
    assert "1     On 1 GPU." in said, "beside its state, the reason does not repeat it"
    assert said.index("job-runs") < said.index("job-7f3"), "what runs comes first"
    assert '<td style="white-space: nowrap">job-7f3</td><td>waiting</td>' in await run(
        kernel, "print(jobs._repr_html_())"
    )
    assert "job-old" in await run(kernel, "jobs = %gq_jobs --all\nprint(jobs)")


async def test_a_job_that_has_sent_a_cell_with_the_magic_runs_it(kernel, tmp_path, monkeypatch):
    await run(kernel, f"%reload_ext jupyter_gq\nimport os; os.environ['GQ_RUN_DIR'] = {str(tmp_path)!r}")
    assert await run(kernel, "%%train --queue vision\nprint('here')") == "here\n"
    reply = await kernel.run("%%train --queue vision\nraise ValueError", stop_on_error=False)
    assert reply["content"]["status"] == "error"


async def test_a_kernel_copies_files_of_a_job_into_its_folder(service, kernel, tmp_path):
    service.answers["GET", "jobs/job-7f3/results"] = (200, {"files": [{"path": "a/model.pt", "bytes": 25}]})
    service.contents["jobs/job-7f3/results/content", "files/a/model.pt"] = bytes(range(25))
    code = """
        job = jupyter_gq.job("job-7f3")
        print(job.files()[0]["bytes"], *job.download("a/model.pt"))
        """
    assert await run(kernel, code) == f"25 {tmp_path}/a/model.pt\n"
    assert (tmp_path / "a/model.pt").read_bytes() == bytes(range(25))
    (tmp_path / "a/model.pt").write_bytes(b"mine")
    assert "'a/model.pt' is there already and differs" in await run(kernel, 'job.download("a/model.pt")')
    assert (tmp_path / "a/model.pt").read_bytes() == b"mine"
    listed = {"files": [{"path": "a/model.pt", "bytes": 25}], "omitted_files": 101}
    service.answers["GET", "jobs/job-7f3/results"] = (200, listed)
    service.contents["jobs/job-7f3/results/content", "files/late"] = b"late"
    await run(kernel, 'job.download("late")')
    assert (tmp_path / "late").read_bytes() == b"late"
    assert "101 more files" in await run(kernel, "import warnings; warnings.simplefilter('error'); job.files()")
    assert "101 more files are not listed" in await run(kernel, "job.download(replace=True)")
    assert (tmp_path / "a/model.pt").read_bytes() == bytes(range(25))
    service.answers["GET", "jobs/job-7f3/results"] = (200, {**listed, "omitted_files": 0})
    assert "is a link or a file here" in await run(
        kernel, "os.makedirs('b'); os.symlink('/tmp', 'b/a'); job.download(to='b')"
    )


async def test_a_cell_that_waits_for_a_job_which_the_service_does_not_know_ends_and_says_so(service, kernel):
    await run(kernel, "%reload_ext jupyter_gq")
    said = await run(kernel, "%%train --queue vision --wait\nmodel = 1")
    assert "UsageError: No job of yours has an id that begins with 'job-0'." in said
