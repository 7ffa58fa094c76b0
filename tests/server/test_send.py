"""A cell is sent to training, or refused before anything is queued."""

import hashlib
import os
import sys

import pytest

from jupyter_gq.client.files.frozen_files import MOST_LINKS
from tests.server.service import ServiceIsDown


def code(cell_id, source, tags=()):
    return {
        "cell_type": "code",
        "id": cell_id,
        "metadata": {"tags": list(tags)},
        "source": source,
        "execution_count": None,
        "outputs": [{"output_type": "stream", "name": "stdout", "text": "old"}],
    }


def a_notebook(*cells, kernel="python3"):
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"name": kernel}}, "cells": list(cells)}


def a_request(**fields):
    notebook = a_notebook(
        {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": "# Digits"},
        code("load", "data = load()"),
        code("train", "train(data)"),
        code("nothing", "  # later\n"),
        code("broken", "x = 1\nfor\n"),
    )
    return {
        "key": "k1",
        "name": "Digits",
        "queue": "vision",
        "gpus": "1",
        "notebook_path": "work/digits.ipynb",
        "kernel_id": None,
        "mode": "replay",
        "notebook": notebook,
        "targets": ["train"],
        "prefix": [{"cell_id": "load", "source": "data = load()", "seconds": 2.5}],
        **fields,
    }


async def test_sent_bundle_can_run_elsewhere(on_hub, service, fetch, jp_root_dir, monkeypatch, jp_environ):
    (jp_root_dir / "work").mkdir()
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    more = {"cpus": "4", "memory": "16 GiB", "gpu_model": "A100-40GB", "expected_seconds": 7200}
    status, job = await fetch("POST", "send", body=a_request(**more))
    assert (status, job["id"]) == (201, "job-0")
    (sent,) = service.bodies
    assert {key: sent[key] for key in more} == more
    assert {key: sent[key] for key in ("name", "queue", "gpus", "tasks")} == {
        "name": "Digits",
        "queue": "vision",
        "gpus": "1",
        "tasks": 1,
    }
    manifest = sent["bundle"]["manifest"]
    assert manifest["cwd"] == str(jp_root_dir / "work")
    assert manifest["server"] == "gpu"
    assert manifest["kernel"]["argv"] == [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    assert (manifest["kernel"]["env"], manifest["kernel"]["env_names"]) == ({}, ["SEEN"])
    assert manifest["environment"]["LC_TIME"] == "C"
    assert manifest["prefix"] == [
        {"cell_id": "load", "source_hash": hashlib.sha256(b"data = load()").hexdigest(), "seconds": 2.5}
    ]
    assert [cell["cell_id"] for cell in manifest["targets"]] == ["train"]
    cells = sent["bundle"]["notebook"]["cells"]
    assert [(cell["id"], cell["source"], cell["outputs"]) for cell in cells] == [
        ("load", "data = load()", []),
        ("train", "train(data)", []),
    ]
    assert service.token not in str(sent)
    assert "hunter2" not in str(sent)
    assert not any(name.startswith(("JUPYTERHUB", "JPY", "JUPYTER_GQ")) for name in manifest["environment"])


async def test_one_key_makes_one_job_of_each_content_and_returns_none_that_is_cancelled_or_deleted(
    on_hub, service, fetch
):
    def ran_meanwhile():
        request = a_request()
        request["notebook"]["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "1"}]
        return request

    async def send(request):
        status, job = await fetch("POST", "send", body=request)
        return status, job["id"]

    assert await send(a_request()) == (201, "job-0")
    assert await send(ran_meanwhile()) == (200, "job-0")
    assert await send(a_request(gpus="0.5")) == (201, "job-1")
    next(iter(service.keys.values()))["phase"] = "cancelling"
    assert await send(a_request()) == (201, "job-2")
    assert await send(a_request()) == (200, "job-2")
    service.deleting.add(next(key for key, job in service.keys.items() if job["id"] == "job-2"))
    assert await send(a_request()) == (201, "job-3")
    service.deleting |= {f"{key[:-1]}{number}" for key in service.keys for number in range(1, 9)}
    assert (await fetch("POST", "send", body=a_request()))[0] == 409, "an end, whatever the service says"


async def test_variables_that_the_cells_read_and_proxies_go_along_by_name(on_hub, service, fetch, monkeypatch):
    for name, value in {
        "EPOCHS": "3",
        "https_proxy": "http://proxy:1",
        "COLOUR": "blue",
        "HF_TOKEN": "hunter2",
    }.items():
        monkeypatch.setenv(name, value)
    source = 'import os\nos.environ["EPOCHS"], os.environ["HF_TOKEN"]'
    request = a_request(notebook=a_notebook(code("train", source)), prefix=[])
    _, answer = await fetch("POST", "check", body=request)
    why = {each["name"]: each["why"] for each in answer["environment"]["variables"]}
    assert [why[name] for name in ("EPOCHS", "https_proxy", "COLOUR")] == ["read", "proxy", "offered"]
    assert "HOME" in answer["environment"]["always"]
    assert answer["warnings"][0]["code"] == "reads_secret"
    assert "http://proxy:1" not in str(answer)
    await fetch("POST", "send", body=request)
    sent = service.bodies[-1]["bundle"]["manifest"]["environment"]
    assert (sent["EPOCHS"], sent["https_proxy"], "COLOUR" in sent) == ("3", "http://proxy:1", False)
    await fetch("POST", "send", body=request | {"variables": ["COLOUR"], "key": "k2"})
    sent = service.bodies[-1]["bundle"]["manifest"]["environment"]
    assert (sent["COLOUR"], "EPOCHS" in sent) == ("blue", False)
    status, problem = await fetch("POST", "send", body=request | {"variables": ["HF_TOKEN"], "key": "k3"})
    assert (status, problem["field"]) == (422, "variables")
    assert "hunter2" not in str(service.bodies)


async def test_two_clicks_make_one_job(on_hub, service, fetch):
    first = await fetch("POST", "send", body=a_request())
    second = await fetch("POST", "send", body=a_request())
    assert (first[0], second[0]) == (201, 200)
    assert first[1]["id"] == second[1]["id"]


async def test_bundle_has_the_command_of_the_running_kernel(on_hub, service, fetch, jp_serverapp, jp_asyncio_loop):
    kernel_id = await jp_serverapp.kernel_manager.start_kernel(kernel_name="python3")
    try:
        status, _ = await fetch("POST", "send", body=a_request(kernel_id=kernel_id))
    finally:
        await jp_serverapp.kernel_manager.shutdown_kernel(kernel_id, now=True)
    assert status == 201
    assert service.bodies[-1]["bundle"]["manifest"]["kernel"]["name"] == "python3"


@pytest.mark.parametrize(
    ("fields", "code_", "field", "said"),
    [
        ({"targets": ["intro"]}, "not_a_code_cell", "targets", "markdown cell"),
        ({"targets": ["nothing"]}, "empty_cell", "targets", "Cell 4 has only comments"),
        ({"targets": ["gone"]}, "unknown_cell", "targets", "no longer"),
        ({"targets": []}, "no_cell", "targets", "Select"),
        ({"targets": ["broken"]}, "syntax_error", "targets", "line 2: for"),
        ({"prefix": [{"cell_id": "broken", "source": "x = 1\nfor\n"}]}, "syntax_error", "prefix", "line 2: for"),
        ({"notebook_path": ""}, "unsaved_notebook", "notebook_path", "Save it once"),
        ({"kernel_id": "gone"}, "unknown_kernel", "kernel_id", "not running"),
        ({"notebook": a_notebook(code("train", "1"), kernel="cobol")}, "unknown_kernel", "kernel_id", "'cobol'"),
        ({"notebook": {}}, "invalid_notebook", "notebook", "no list of cells"),
        ({"queue": None}, "invalid_request", "queue", "text was expected"),
        ({"name": "n" * 101}, "invalid_request", "name", "100"),
        ({"key": ""}, "invalid_request", "key", "1 or more characters"),
    ],
)
async def test_cells_that_cannot_run_are_refused_without_asking_the_service(
    on_hub, service, fetch, fields, code_, field, said
):
    status, problem = await fetch("POST", "send", body=a_request(**fields))
    assert (status, problem["code"], problem["field"]) == (422, code_, field)
    assert said in problem["message"]
    assert service.asked == []


async def test_a_kernel_that_is_not_python_is_replayed_unchecked(on_hub, service, fetch):
    request = a_request(notebook=a_notebook(code("train", "for\n"), kernel="echo"))
    status, answer = await fetch("POST", "check", body=request)
    assert status == 200
    assert answer["warnings"][0]["code"] == "not_checked"
    assert (await fetch("POST", "send", body=request))[0] == 201
    assert service.bodies[-1]["bundle"]["manifest"]["kernel"]["language"] == "echo"


async def test_a_cell_that_is_too_large_to_be_looked_at_is_sent_and_its_user_is_told(on_hub, fetch):
    large = code("train", "words = [" + "'word', " * 160_000 + "]")
    status, plan = await fetch("POST", "check", body=a_request(notebook=a_notebook(large)))
    assert status == 200
    (said,) = [each["message"] for each in plan["warnings"] if each["code"] == "not_checked"]
    assert said.startswith("is too large to be looked at, so the files, variables and results that it names are not")


async def test_the_check_sends_nothing(on_hub, service, fetch):
    status, answer = await fetch("POST", "check", body=a_request())
    assert status == 200
    assert [cell["cell_id"] for cell in answer["prefix"]] == ["load"]
    assert answer["targets"] == [{"cell_id": "train", "title": "train(data)", "seconds": None, "why": "target"}]
    assert service.asked == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("%%writefile a.py\nx = 1", "writes a.py: ran once already; runs again in the job"),
        ("name = input()", "asks for input; nobody can answer in a job, so it will fail"),
        ("from getpass import getpass\nkey = getpass()", "asks for input; nobody can answer in a job, so it will fail"),
        ("%pip install x", "installs packages; it does so in every run, in the same environment"),
        ("!pip install x", "installs packages; it does so in every run, in the same environment"),
        ("!uv pip install x", "installs packages; it does so in every run, in the same environment"),
        (
            "with open('log.txt', 'a') as f:\n    f.write('x')",
            "writes log.txt: ran once already; runs again in the job",
        ),
        ("df.to_csv('out.csv')", "writes out.csv: ran once already; runs again in the job"),
        (
            f"df.to_csv('{'long/' * 9}out.csv')",
            f"writes …g/{'long/' * 6}out.csv: ran once already; runs again in the job",
        ),
        ("db.execute('INSERT INTO t VALUES (1)')", "changes a database: ran once already; runs again in the job"),
    ],
)
async def test_the_check_has_a_note_beside_each_replayed_cell_that_acts(on_hub, fetch, source, message):
    other = {"cell_id": "load", "source": "data = load()"}
    cells = a_notebook(code("acts", source), code("load", "data = load()"), code("train", "train(data)"))
    request = a_request(notebook=cells, prefix=[other, {"cell_id": "acts", "source": source}])
    _, answer = await fetch("POST", "check", body=request)
    assert [(warned["index"], warned["message"]) for warned in answer["warnings"]] == [(1, message)]
    _, answer = await fetch("POST", "check", body=request | {"prefix": [other]})
    assert answer["warnings"] == [], "a note disappears with its cell"


async def test_refusal_of_a_too_large_bundle_is_the_service_s(on_hub, service, fetch):
    problem = {"code": "too_large", "message": "The bundle has 21 MiB; at most 20 MiB.", "field": "bundle"}
    service.answers["POST", "jobs"] = (413, problem)
    assert await fetch("POST", "send", body=a_request()) == (413, problem)


@pytest.mark.parametrize("kind_of_service", [ServiceIsDown])
async def test_nothing_is_sent_to_a_service_that_is_down(on_hub, fetch):
    status, problem = await fetch("POST", "send", body=a_request())
    assert (status, problem["code"]) == (503, "service_unavailable")


def with_module(jp_root_dir):
    """A folder with a module, data above every cap, and a request for a cell that needs both."""
    (jp_root_dir / "work").mkdir()
    (jp_root_dir / "work" / "net.py").write_text("WIDTH = 7\n")
    with (jp_root_dir / "work" / "large.csv").open("wb") as large:
        large.truncate(10**9)
    return a_request(notebook=a_notebook(code("train", "import net\nload('large.csv')")), prefix=[])


async def test_modules_are_planned_and_frozen_and_large_data_stays(on_hub, service, fetch, jp_root_dir):
    request = with_module(jp_root_dir)
    status, plan = await fetch("POST", "check", body=request)
    assert status == 200
    assert plan["files"]["going"] == [{"path": "net.py", "bytes": 10, "why": "imported"}]
    (stays,) = plan["files"]["staying"]
    assert (stays["path"], stays["bytes"], stays["reached"]) == ("large.csv", 10**9, True)
    assert service.parts == {}
    assert (await fetch("POST", "send", body=request))[0] == 201
    digest = hashlib.sha256(b"WIDTH = 7\n").hexdigest()
    entry = {"path": "net.py", "bytes": 10, "parts": [digest], "executable": False}
    entry["modified_at"] = (jp_root_dir / "work" / "net.py").stat().st_mtime
    assert service.bodies[-1]["bundle"]["manifest"]["files"] == [entry]
    assert service.parts == {digest: b"WIDTH = 7\n"}


async def test_a_file_that_the_cells_only_write_is_named_and_stays(on_hub, service, fetch, jp_root_dir):
    request = with_module(jp_root_dir)
    folder = "results-of-the-experiment-with-a-long-name"
    (jp_root_dir / "work" / folder).mkdir()
    (jp_root_dir / "work" / folder / "out.csv").write_text("of an earlier run")
    cell = code("train", f"import net\ndf.to_csv('./{folder}/out.csv')")
    request["notebook"] = a_notebook(cell)
    _, plan = await fetch("POST", "check", body=request)
    assert [each["path"] for each in plan["files"]["going"]] == ["net.py"]
    assert "what it writes through a link changes your file" in plan["files"]["notes"][1]
    for number, (choice, written) in enumerate((({}, [f"{folder}/out.csv"]), ({"live_folder": True}, []))):
        assert (await fetch("POST", "send", body={**request, **choice, "key": f"k{number}"}))[0] == 201
        assert service.bodies[-1]["bundle"]["manifest"]["written"] == written
    assert [each["bundle"]["manifest"]["folders"] for each in service.bodies] == [[folder], []]


async def test_the_script_of_a_cell_is_read_and_goes_along(on_hub, service, fetch, jp_root_dir):
    (jp_root_dir / "work").mkdir(exist_ok=True)
    (jp_root_dir / "work" / "train.py").write_text("name = input()\nmodel = open(f'ckpt/{name}.pt', 'w')")
    request = a_request(notebook=a_notebook(code("train", "%run train.py"), code("show", "print(model)")), prefix=[])
    _, plan = await fetch("POST", "check", body=request)
    assert [each["code"] for each in plan["warnings"]] == ["asks_for_input"]
    assert [each["path"] for each in plan["files"]["going"]] == ["train.py"]
    assert (plan["makes"], plan["returns"]) == (["name", "model"], ["model"])


async def test_an_older_service_gets_nothing_that_it_does_not_know(on_hub, service, fetch, jp_root_dir):
    del service.files["fields"]
    assert (await fetch("POST", "send", body=with_module(jp_root_dir)))[0] == 201
    manifest = service.bodies[-1]["bundle"]["manifest"]
    assert "written" not in manifest
    assert [sorted(file) for file in manifest["files"]] == [["bytes", "executable", "parts", "path"]]


async def test_files_are_left_out_one_by_one_or_all_in_the_live_folder(on_hub, service, fetch, jp_root_dir):
    request = with_module(jp_root_dir)
    for number, choice in enumerate(({"left_out_files": ["net.py"]}, {"live_folder": True})):
        assert (await fetch("POST", "send", body={**request, **choice, "key": f"k{number}"}))[0] == 201
        manifest = service.bodies[-1]["bundle"]["manifest"]
        assert (manifest["files"], manifest["own_folder"]) == ([], False)  # the cell is not known to write
    _, plan = await fetch("POST", "check", body={**request, "live_folder": True})
    assert plan["files"]["notes"][0] == "No file goes along: the job runs in this folder itself, and writes there."


def a_writing_request(source, **fields):
    return a_request(notebook=a_notebook(code("train", source)), prefix=[], **fields)


async def test_a_cell_that_takes_nothing_along_writes_into_a_folder_of_the_job_s_own(
    on_hub, service, fetch, jp_root_dir
):
    (jp_root_dir / "work" / "ckpt").mkdir(parents=True)
    (jp_root_dir / "work" / "ckpt" / "0.pt").write_text("of an earlier run")
    request = a_writing_request("df.to_csv('out.csv')\nfor e in range(9): save(open(f'ckpt/{e}.pt', 'wb'))")
    _, plan = await fetch("POST", "check", body=request)
    assert plan["files"]["going"] == []
    assert plan["files"]["notes"][:2] == [
        "The job runs in a folder of its own, with links to the files of this folder.",
        "What it writes there comes back as its results; what it writes through a link changes your file.",
    ]
    assert (await fetch("POST", "send", body=request))[0] == 201
    manifest = service.bodies[-1]["bundle"]["manifest"]
    assert {name: manifest[name] for name in ("files", "own_folder", "written", "folders")} == {
        "files": [],
        "own_folder": True,
        "written": ["ckpt/0.pt", "out.csv"],
        "folders": ["ckpt"],
    }


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("load('../data.csv').to_csv('out.csv')", "the cells may look for something above it"),
        ("for path in Path().rglob('*.csv'): open('out.csv', 'a')", "the cells may search the folders in it"),
    ],
)
async def test_a_cell_that_would_miss_something_elsewhere_runs_in_the_notebook_s_folder(
    on_hub, service, fetch, source, why
):
    _, plan = await fetch("POST", "check", body=a_writing_request(source))
    assert plan["files"]["notes"][0] == (
        f"No file goes along: the job runs in this folder itself, and writes there, since {why}."
    )
    assert (await fetch("POST", "send", body=a_writing_request(source)))[0] == 201
    assert service.bodies[-1]["bundle"]["manifest"]["own_folder"] is False


async def test_a_pod_works_in_the_notebook_s_folder_if_it_has_that(on_hub, service, fetch, jp_root_dir):
    request = a_writing_request("open('out.csv', 'w')")
    for reached, own, said in (
        (str(jp_root_dir), False, "and writes there, since only that folder is kept while the job is paused."),
        ("/data", True, "it begins in an empty one."),
    ):
        service.files |= {"reached": [reached]}
        _, plan = await fetch("POST", "check", body=request)
        assert plan["files"]["notes"][0].endswith(said)
        assert (await fetch("POST", "send", body={**request, "key": reached}))[0] == 201
        assert service.bodies[-1]["bundle"]["manifest"]["own_folder"] is own


async def test_an_older_service_has_no_folder_of_the_job_s_own_and_the_plan_says_so(on_hub, service, fetch):
    service.files |= {"fields": ["Manifest.written"]}
    _, plan = await fetch("POST", "check", body=a_writing_request("open('out.csv', 'w')"))
    assert plan["files"]["notes"][0].endswith("and writes there, since the scheduler service is of an older release.")


async def test_a_folder_with_too_many_files_for_links_is_used_itself(on_hub, service, fetch, jp_root_dir):
    (jp_root_dir / "work").mkdir()
    for number in range(MOST_LINKS + 1):
        (jp_root_dir / "work" / f"{number}.png").touch()
    _, plan = await fetch("POST", "check", body=a_writing_request("open('out.csv', 'w')"))
    assert f"more than {MOST_LINKS:,} files are in it" in plan["files"]["notes"][0]
    (jp_root_dir / "work" / "0.png").unlink()
    _, plan = await fetch("POST", "check", body=a_writing_request("open('out.csv', 'w')"))
    assert "folder of its own" in plan["files"]["notes"][0]


async def test_nothing_goes_along_while_the_file_that_names_what_stays_cannot_be_read(
    on_hub, service, fetch, jp_root_dir
):
    request = with_module(jp_root_dir)
    (jp_root_dir / "work" / ".jupyter-gq-ignore").write_text("net.py\n" * 10_000)
    problem = "The file .jupyter-gq-ignore cannot be followed: it is larger than 64 KiB. Mend or delete it"
    _, plan = await fetch("POST", "check", body=request)
    assert problem in str(plan["files"]["notes"])
    status, refusal = await fetch("POST", "send", body=request)
    assert (status, refusal["field"], problem in refusal["message"]) == (422, "files", True)
    assert (service.parts, service.bodies) == ({}, [])
    assert (await fetch("POST", "send", body={**request, "live_folder": True}))[0] == 201


async def test_a_job_that_reaches_nothing_is_announced(on_hub, service, fetch, jp_root_dir):
    service.files |= {"reached": []}
    request = with_module(jp_root_dir)
    _, plan = await fetch("POST", "check", body=request)
    (stays,) = plan["files"]["staying"]
    assert stays["message"] == (
        f"{jp_root_dir / 'work' / 'large.csv'} is not reachable from the job, and it has more than 16 MiB: "
        "read it by a URL"
    )
    assert plan["files"]["notes"][:2] == [
        "The job runs in a folder of its own with these files; no other file is there.",
        "What it writes there comes back as its results.",
    ]
    _, plan = await fetch("POST", "check", body={**request, "live_folder": True})
    assert plan["files"]["notes"][0].endswith("it begins in an empty one.")


async def test_with_a_service_that_keeps_no_files_none_goes_along(on_hub, service, fetch, jp_root_dir):
    service.answers["POST", "files/missing"] = (404, {"code": "not_found", "message": "No such path."})
    request = with_module(jp_root_dir)
    _, plan = await fetch("POST", "check", body=request)
    assert (plan["files"]["going"], "takes no files along" in str(plan["files"]["notes"])) == ([], True)
    assert (await fetch("POST", "send", body=request))[0] == 201


async def test_files_whose_names_are_not_utf8_are_named(on_hub, service, fetch, jp_root_dir):
    folder = jp_root_dir / "work"
    folder.mkdir()
    with open(os.fsencode(folder) + b"/odd\xff.csv", "w"):  # noqa: ASYNC230 - an empty file
        pass
    status, plan = await fetch("POST", "check", body=a_request(file_patterns=["*.csv"]))
    assert status == 200, plan
    (staying,) = plan["files"]["staying"]
    assert staying["path"] == r"'odd\udcff.csv'"
    assert "it is not valid text" in staying["message"]


async def test_patterns_that_take_no_file_along_are_told_before_the_job_is_sent(on_hub, service, fetch, jp_root_dir):
    (jp_root_dir / "work").mkdir()
    (jp_root_dir / "work" / "a.csv").write_text("1")
    patterns = ["*.csv", "*.yaml", "../*.ipynb", "~/a", "!a[]", "/", ""]
    _, plan = await fetch("POST", "check", body=a_request(file_patterns=patterns))
    outside = "is outside of the notebook's folder, and only files in this folder go along"
    assert [note.partition(". ")[0] for note in plan["files"]["pattern_notes"]] == [
        r"'!a[]' keeps no file here: it has a [ without a letter and a ] after it: write \[ for the letter itself.",
        "'/' takes no file along: it names nothing: write the name of a file or folder, such as data.",
        "'*.yaml' matches no file in the notebook's folder; ignored and hidden folders are not searched.",
        f"'../*.ipynb' {outside}",
        f"'~/a' {outside}",
    ]


@pytest.mark.parametrize(
    "document",
    [
        {"metadata": [1]},
        {"metadata": {"kernelspec": "python3", "language_info": "python"}},
        {"cells": [{"id": "train", "cell_type": "code", "source": ["x"], "metadata": []}]},
        {"cells": [{"id": "train", "cell_type": "code", "source": "x", "metadata": {"tags": 1}}]},
    ],
)
async def test_odd_types_in_a_notebook_count_as_nothing(on_hub, service, fetch, document):
    status, job = await fetch("POST", "send", body=a_request(notebook={**a_request()["notebook"], **document}))
    assert status == 201, job


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"cwd": "/tmp/\0"}, "cwd", "is not the full path of a folder"),
        ({"cwd": "work"}, "cwd", "is not the full path of a folder"),
        ({"cwd": "/tmp/a\nb"}, "cwd", "control characters are not possible in it"),
        ({"secrets": ["../token"]}, "secrets", "cannot be the name of a secret"),
        ({"prefix": [{"cell_id": "load", "source": "x", "seconds": -1}]}, "", "0 or more was expected"),
        ({"gpus": True}, "gpus", "text or a number was expected, not true"),
        ({"tasks": True}, "tasks", "a whole number was expected, not true"),
        ({"cpus": float("inf")}, "cpus", "was expected, not Infinity"),
        ({"gpus": float("nan")}, "gpus", "was expected, not NaN"),
    ],
)
async def test_what_no_bundle_can_hold_is_refused_by_its_name(on_hub, service, fetch, fields, field, said):
    status, problem = await fetch("POST", "send", body=a_request(**fields))
    assert status == 422, problem
    assert field in (problem["field"] or "")
    assert said in problem["message"]
    assert service.bodies == []
