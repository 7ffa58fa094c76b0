"""`jupyter-gq submit` against the real service: what a job is, which files go along, and what is refused."""

import json
import sys
from dataclasses import replace

import pytest

from jupyter_gq.app import main
from jupyter_gq.client import models
from jupyter_gq.client.files.frozen_files import MAX_FILE_MIB
from jupyter_gq.client.problems import ServiceError

pytestmark = pytest.mark.asyncio


async def test_submit_sends_a_file_and_says_what_happens_next(say, people, world, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    code, out, _ = await say("submit", str(script), "--dry-run")
    assert (code, (await people["ann"].jobs()).jobs) == (0, [])
    assert out.startswith("Starts now, 0.5 GPU over your queue's quota")
    code, _, said = await say("submit", str(script), "--dry-run", "--secret", "NOPE")
    assert (code, "NOPE" in said) == (3, True), "a forecast is refused for the reason for which the job would be"
    code, out, _ = await say(
        "submit",
        str(script),
        "--gpus",
        "0.5",
        "--expected",
        "2h",
        "--max-time",
        "3h",
        "--priority",
        "-1",
        "--",
        "--epochs",
        "4",
    )
    (job,) = (await people["ann"].jobs()).jobs
    assert code == 0
    files, sent, forecast, advice = out.splitlines()
    assert files == f"No file goes along: the job runs in the folder '{tmp_path}', and writes there."
    assert (sent, forecast) == (f"train ({job.id}) was sent to vision.", "Starts now, within the quota.")
    assert advice == f"`jupyter-gq logs -f {job.id}` follows it."
    assert (job.gpus, job.expected_seconds, job.max_seconds, job.priority) == ("0.5", 7200, 10_800, -1)
    arguments, code_sent = (cell["source"] for cell in world.bundles.kept[job.id]["notebook"]["cells"])
    assert "'--epochs', '4'" in arguments
    assert code_sent == "print(1)\n"
    await world.steps()
    for _ in range(2):
        sent = (await say("submit", str(script), "--gpus", "1"))[1].splitlines()[2]
    asked = (await say("submit", str(script), "--gpus", "1", "--dry-run"))[1]
    assert (sent[:9], asked[:12]) == ("Waiting: ", "Would wait: ")
    code, out, _ = await say("submit", str(script), "--name", "other", "--returns", "model, loss", "-o", "json")
    other = models.JobView.model_validate_json(out)
    assert (other.name, other.returns) == ("other", ["model", "loss"])


async def test_submit_continues_from_the_checkpoints_of_an_ended_job(say, people, world, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    await say("submit", str(script))
    (earlier,) = (await people["ann"].jobs()).jobs
    code, _, err = await say("submit", str(script), "--continue-from", earlier.id)
    assert (code, "only a job that has ended can be continued" in err) == (3, True)
    with pytest.raises(ServiceError) as refused:
        await people["ann"].preview(models.JobRequest(queue="vision", continue_from=earlier.id))
    assert (refused.value.status, refused.value.problem.field) == (422, "continue_from")
    await world.steps()
    await say("cancel", earlier.id)
    await world.steps()
    code, out, err = await say("submit", str(script), "--continue-from", earlier.id, "--dry-run")
    assert (code, out.splitlines()[1]) == (0, f"It would continue from the checkpoints of '{earlier.id}'."), err
    code, out, _ = await say("submit", str(script), "--continue-from", f" {earlier.id} ", "-o", "json")
    sent = models.JobView.model_validate_json(out)
    assert (code, sent.continue_from) == (0, earlier.id)
    code, out, _ = await say("submit", str(script), "--continue-from", earlier.id.removeprefix("job-"), "-o", "json")
    assert (code, models.JobView.model_validate_json(out).continue_from) == (0, earlier.id), "as in every command"
    code, _, err = await say("submit", str(script), "--continue-from", "nothing-like-it")
    assert (code, "No job of yours has an id that begins with 'nothing-like-it'." in err) == (3, True), err
    code, out, _ = await say("explain", sent.id)
    assert f"Continues from the checkpoints of {earlier.id}.\n" in out


async def test_submit_names_software_and_says_what_is_offered(say, people, tmp_path, monkeypatch):
    script, specs = tmp_path / "train.py", tmp_path / "jupyter" / "kernels" / "py-other"
    script.write_text("print(1)\n")
    specs.mkdir(parents=True)
    spec = {"argv": [sys.executable, "-m", "ipykernel_launcher"], "display_name": "Other", "language": "python"}
    (specs / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    code, out, _ = await say("submit", str(script), "--software", "py-other", "--dry-run")
    assert (code, out.splitlines()[1]) == (0, "It would run with the software 'py-other'.")
    code, out, _ = await say("submit", str(script), "--software", "py-other", "-o", "json")
    assert (code, json.loads(out)["software"]) == (0, "py-other")
    code, _, err = await say("submit", str(script), "--software", "cobol")
    assert (code, "There is no software 'cobol' here. Offered are: " in err, "py-other" in err) == (2, True, True)
    assert len((await people["ann"].jobs()).jobs) == 1


async def test_a_working_folder_that_the_machine_of_the_jobs_lacks_is_refused_at_submission(
    say, people, tmp_path, world
):
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    asked = []

    def find_fault(user, folder):
        asked.append((user, folder))
        return "does not exist (any more)" if folder == "/nope" else ""

    world.machine.capabilities = replace(world.machine.capabilities, find_folder_fault=find_fault)
    code, out, _ = await say("submit", str(script), "--folder", "/nope", "--dry-run")
    assert (code, asked) == (0, [])
    assert "Whether the folder '/nope' can be used is known only when the job is sent or runs." in out
    code, _, err = await say("submit", str(script), "--folder", "/nope")
    assert code == 3
    assert "The working folder '/nope' does not exist (any more), on the machine on which jobs run." in err
    assert (await people["ann"].jobs()).jobs == []
    code, _, _ = await say("submit", str(script), "--folder", "/data")
    assert (code, asked) == (0, [("ann", "/nope"), ("ann", "/data")])


async def test_submit_says_that_the_job_begins_in_an_empty_folder(say, world, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    world.machine.capabilities = replace(world.machine.capabilities, reached_folders=("/home/ann",))
    told = f"No file goes along, and the job does not reach the folder '{tmp_path}': it begins in an empty one."
    for options in (["--dry-run"], []):
        assert told in (await say("submit", str(script), "--live", *options))[1].splitlines()
        assert "1 file (9 bytes) goes along." in (await say("submit", str(script), *options))[1]
    assert "goes along." not in (await say("submit", str(script), "--folder", "/home/ann/work"))[1]
    _, out, err = await say("submit", str(script), "--live", "-o", "json")
    assert json.loads(out)["files_plan"]["notes"] == [told]
    assert told in err


@pytest.fixture
def project(tmp_path):
    """A script with a module, a file that it names, one that an argument names, and large data."""
    code = "import net, sys\nopen('conf.yaml'), open('large.bin'), open(sys.argv[1])\n"
    texts = {"train.py": code, "net.py": "VALUE = 1\n", "conf.yaml": "a", "data.csv": "b", "extra.txt": "c"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    with (tmp_path / "large.bin").open("wb") as large:
        large.truncate(int(MAX_FILE_MIB * 1024**2) + 1)
    return tmp_path / "train.py"


def read_manifest(world, job):
    manifest = world.bundles.kept[job]["manifest"]
    return [file["path"] for file in manifest["files"]], manifest["own_folder"]


async def test_submit_takes_along_what_the_script_needs_and_says_so(say, world, project):
    going = ["conf.yaml", "data.csv", "net.py", "train.py"]
    code, out, _ = await say("submit", str(project), "--dry-run", "--", "data.csv")
    size = sum((project.parent / name).stat().st_size for name in going)
    listed = out.splitlines()
    begin = listed.index(f"4 files ({size} bytes) go along.")
    assert (code, listed[begin + 1], listed[begin + 3]) == (
        0,
        "  conf.yaml (1 byte, opened)",
        "  net.py (10 bytes, imported)",
    )
    assert listed[-1] == "large.bin: stays where it is, because it has more than 16 MiB; the job reads it there."
    code, out, err = await say(
        "submit", str(project), "--also", "*.txt", "--also", "nope/", "-o", "json", "--", "data.csv"
    )
    sent = json.loads(out)
    assert read_manifest(world, sent["id"]) == (sorted([*going, "extra.txt"]), True)
    assert [file["path"] for file in sent["files_plan"]["going"]] == sorted([*going, "extra.txt"])
    first, *gaps = err.splitlines()
    assert first.startswith(f"5 files ({size + 1} bytes) go along. The job runs in a folder of its own")
    assert first.endswith("It reads where they are: large.bin.")
    assert gaps == ["'nope/' matches no file in the notebook's folder; ignored folders are not searched."]


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
async def test_submit_says_which_paths_lead_only_from_the_present_folder(say, tmp_path, monkeypatch, options):
    for name in ("src", "data", "runs", "sys", "cuda", "sets"):
        (tmp_path / name).mkdir()
    for name in ("data/a.csv", "conf.yaml", "log.txt", "src/both.txt", "both.txt"):
        (tmp_path / name).write_text("a")
    script = tmp_path / "src" / "train.py"
    script.write_text(
        "open('data/a.csv'), open('both.txt'), open('log.txt', 'w')\nword = 'runs'\n"
        "net.to('cuda'), load(split='runs'), os.listdir('sets'), open('conf.yaml')\n"
    )
    told = "does not find what is in the present folder: conf.yaml, data/a.csv, sets. Write full paths"
    arguments = ["submit", "src/train.py", *options, "--", "--config", "conf.yaml"]
    monkeypatch.chdir(tmp_path)
    assert told in (await say(*arguments))[1]
    script.write_text(f"import os\nos.chdir('..')\n{script.read_text()}")
    assert "present folder" not in (await say(*arguments))[1]
    monkeypatch.chdir(tmp_path / "src")
    assert "present folder" not in (await say("submit", "train.py", *options))[1]
    monkeypatch.chdir(tmp_path)
    elsewhere = await say("submit", "src/train.py", "--folder", str(tmp_path), *options)
    assert "present folder" not in elsewhere[1]


async def test_submit_works_from_a_folder_that_was_deleted(say, tmp_path, monkeypatch):
    script, gone = tmp_path / "train.py", tmp_path / "gone"
    script.write_text("open('a.csv')\n")
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert (await say("submit", str(script), "--dry-run"))[0] == 0


async def test_submit_takes_along_what_the_scripts_of_a_notebook_need(say, world, project):
    cell = {"cell_type": "code", "id": "one", "metadata": {}, "source": "%run train.py data.csv"}
    notebook = project.with_name("n.ipynb")
    notebook.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}))
    sent = json.loads((await say("submit", str(notebook), "-o", "json"))[1])
    assert read_manifest(world, sent["id"]) == (["conf.yaml", "data.csv", "net.py", "train.py"], True)


async def test_submit_says_what_in_the_code_may_fail_in_a_job(say, tmp_path):
    cells = [
        {"cell_type": "code", "id": name, "metadata": {}, "source": source}
        for name, source in [("one", "answer = input()"), ("two", "%pip install einops"), ("three", "print(answer)")]
    ]
    notebook = tmp_path / "n.ipynb"
    notebook.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))
    asks, installs = "asks for input; nobody can answer in a job, so it will fail.", "installs packages; it does so"
    for options in (["--dry-run"], []):
        told = (await say("submit", str(notebook), *options))[1]
        assert f"\nThe cell “answer = input()” {asks}\n" in told
        assert f"\nThe cell “%pip install einops” {installs}" in told
    script = tmp_path / "train.py"
    script.write_text("import sys\nanswer = input()\n")
    _, out, err = await say("submit", str(script), "-o", "json", "--", "a")
    assert (err.splitlines()[1:], json.loads(out)["name"]) == ([f"train.py {asks}"], "train")
    _, out, err = await say("submit", str(script), "--dry-run", "-o", "json")
    assert (err, "files_plan" in json.loads(out)) == (f"train.py {asks}\n", True)


async def test_a_script_goes_along_alone_only_if_a_pattern_names_it(say, world, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    (tmp_path / ".env").write_text("KEY=1\n")  # a secret, which stays though the pattern names it
    for pattern, going in [("*.nope", []), ("!*.csv", []), (".env", []), ("train.py", ["train.py"])]:
        sent = json.loads((await say("submit", str(script), "--also", pattern, "-o", "json"))[1])
        assert read_manifest(world, sent["id"])[0] == going


async def test_a_name_of_several_lines_is_told_in_one(say, project):
    (project.parent / "a\nb.csv").write_text("1")
    (project.parent / ".a\nb").mkdir()
    _, out, _ = await say("submit", str(project), "--also", "*.csv", "--also", "*b", "--dry-run", "--", "data.csv")
    assert "Hidden files stay, such as '.a\\nb/': a pattern" in out
    assert "\n'a\\nb.csv': stays where it is, because it has control characters; the job reads it there." in out


async def test_submit_tells_of_data_beside_the_script_that_is_not_in_the_named_folder(say, project):
    there = project.parent / "there"
    there.mkdir()
    _, out, _ = await say("submit", str(project), "--folder", str(there), "--dry-run", "--", "data.csv")
    told = "the job does not find it, because it has more than 16 MiB: write its full path, or use the live folder"
    assert f"large.bin: {told}." in out


async def test_submit_takes_nothing_along_into_the_live_folder(say, world, project):
    sent = json.loads((await say("submit", str(project), "--live", "-o", "json", "--", "data.csv"))[1])
    assert read_manifest(world, sent["id"]) == ([], False)
    with pytest.raises(SystemExit, match="2"):
        main(["submit", str(project), "--live", "--also", "*.txt"])


async def test_submit_refuses_files_if_it_is_not_known_which_ones_stay(say, people, project):
    (project.parent / ".jupyter-gq-ignore").write_text("#" * 2**17)
    code, _, err = await say("submit", str(project))
    assert (code, "The file .jupyter-gq-ignore cannot be followed: " in err) == (2, True)
    assert (await people["ann"].jobs()).jobs == []


async def test_submit_tells_modules_that_lie_outside_of_the_folder(say, project, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "outside_of_all.py").touch()
    project.write_text("import outside_of_all\n")
    for options, said in (
        (["--dry-run"], f"outside_of_all: stays in {tmp_path}/lib, and the job imports what is there while it runs"),
        (["--dry-run", "-o", "json"], f"stays in {tmp_path}/lib, and the job imports"),
        ([], "reads where they are: outside_of_all."),
        (["--folder", "/nowhere"], f"outside_of_all: the job does not find it in {tmp_path}/lib: install it in the"),
    ):
        code, out, _ = await say("submit", str(project), "--also", "extra.txt", *options)
        assert (code, said in out) == (0, True), out


@pytest.mark.parametrize("reached", ["/", "/home/ann"])
async def test_submit_takes_files_along_to_another_machine(say, world, project, reached):
    world.machine.capabilities = replace(world.machine.capabilities, reached_folders=(reached,))
    code, out, _ = await say("submit", str(project), "--folder", "/home/ann/nowhere", "--", "data.csv")
    assert code == 0
    assert "the other files of the folder '/home/ann/nowhere' are there as links" in out
    assert f"large.bin: {project.parent}/large.bin is not reachable from the job, and it has more than 16 MiB: " in out
    assert ("put it into a folder that jobs reach (/home/ann), or read it by a URL." in out) is (reached != "/")
    (kept,) = world.bundles.kept
    assert read_manifest(world, kept) == (["conf.yaml", "data.csv", "net.py", "train.py"], True)
    assert world.bundles.kept[kept]["manifest"]["cwd"] == "/home/ann/nowhere"


async def test_submit_needs_a_queue_that_the_user_may_use(say, people, tmp_path, monkeypatch, world):
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "root")
    code, _, err = await say("submit", str(script))
    assert (code, "You may use no training queue." in err) == (2, True)
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "ann")
    code, _, err = await say("submit", str(script), "--queue", "nlp")
    assert (code, "not a member of the queue 'nlp'" in err) == (3, True)
    code, _, err = await say("submit", str(script), "--tasks", "99")
    assert (code, "tasks: at most 64 was expected, not 99" in err) == (2, True)
    code, _, err = await say("submit", str(script), "--tasks", "2", "--min-tasks", "3")
    assert (code, "jupyter-gq submit: min_tasks is 3, but the job has 2 tasks" in err) == (2, True), err
    assert (await people["ann"].jobs()).jobs == []
