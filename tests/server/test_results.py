"""The executed notebook of a job is copied to a place where JupyterLab can open it, and edited copies are kept."""

import json

from tests.server.service import a_job, a_result

PATH = "gq-results/Digits-7f3.ipynb"


async def test_result_can_be_opened_with_the_default_settings(on_hub, fetch, jp_fetch):
    status, answer = await fetch("POST", "open-result", "job-7f3", body={})
    assert (status, answer) == (200, {"path": PATH})
    model = json.loads((await jp_fetch("api", "contents", *PATH.split("/"))).body)
    assert model["content"]["cells"][0]["outputs"][0]["text"] == "trained\n"


async def test_hidden_folders_cannot_be_opened(on_hub, jp_root_dir, jp_fetch):
    """The name of the folder has no dot for this reason; if this test fails, the name can change."""
    hidden = jp_root_dir / ".gq"
    hidden.mkdir()
    (hidden / "output.ipynb").write_text(json.dumps(a_result()))
    response = await jp_fetch("api", "contents", ".gq", "output.ipynb", raise_error=False)
    assert response.code == 404


async def test_second_open_of_a_running_job_shows_the_new_outputs(on_hub, service, fetch, jp_root_dir):
    await fetch("POST", "open-result", "job-7f3", body={})
    service.answers["GET", "jobs/job-7f3/notebook"] = (200, a_result("trained\nand plotted\n"))
    assert (await fetch("POST", "open-result", "job-7f3", body={}))[1] == {"path": PATH}
    assert "plotted" in (jp_root_dir / PATH).read_text()


async def test_copy_that_the_user_edited_is_kept(on_hub, service, fetch, jp_root_dir):
    await fetch("POST", "open-result", "job-7f3", body={})
    mine = json.loads((jp_root_dir / PATH).read_text())
    mine["cells"][0]["source"] = "my(notes)"
    (jp_root_dir / PATH).write_text(json.dumps(mine))
    assert (await fetch("POST", "open-result", "job-7f3", body={}))[1] == {"path": "gq-results/Digits-7f3-2.ipynb"}
    assert "my(notes)" in (jp_root_dir / PATH).read_text()


async def test_other_file_of_the_same_name_is_kept(on_hub, fetch, jp_root_dir):
    (jp_root_dir / "gq-results").mkdir()
    (jp_root_dir / PATH).write_text("not a notebook")
    assert (await fetch("POST", "open-result", "job-7f3", body={}))[1] == {"path": "gq-results/Digits-7f3-2.ipynb"}


async def test_names_become_file_names(on_hub, service, fetch):
    service.answers["GET", "jobs/job-7f3"] = (200, a_job(name="../ü b / c.ipynb"))
    assert (await fetch("POST", "open-result", "job-7f3", body={}))[1] == {"path": "gq-results/b-c.ipynb-7f3.ipynb"}


async def test_job_without_an_executed_notebook_answers_with_404(on_hub, service, fetch, jp_root_dir):
    service.answers["GET", "jobs/job-7f3/notebook"] = (404, {"code": "not_found", "message": "Nothing ran so far."})
    status, problem = await fetch("POST", "open-result", "job-7f3", body={})
    assert (status, problem["message"]) == (404, "Nothing ran so far.")
    assert not (jp_root_dir / "gq-results").exists()


async def test_a_folder_that_cannot_be_written_is_a_problem_not_a_crash(on_hub, fetch, jp_root_dir):
    (jp_root_dir / "gq-results").write_text("a file is in the way")
    status, problem = await fetch("POST", "open-result", "job-7f3", body={})
    assert status >= 400
    assert problem["message"]
