"""The command that lists and copies the files of a job: what it prints, what it writes, and its exit codes.

Runs the commands of docs/how-to/get-results-back.md.
"""

import pytest
import pytest_asyncio

from jupyter_gq.client import models

from .world import submission

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def job(people, world, bundle):
    """Return a job that has brought back three files, and a fourth only by its name."""
    job = (await people["ann"].submit(submission(bundle)))[0]
    files = {"model.pt": b"weights", "plots/loss.png": b"png", ".bashrc": b"evil"}
    listed = [{"path": path, "bytes": len(content)} for path, content in files.items()]
    world.bundles.listed[job.id] = {"files": [*listed, {"path": "big", "bytes": 10**9, "reason": "It is too large."}]}
    world.bundles.brought |= {(job.id, f"files/{path}"): content for path, content in files.items()}
    return job


async def test_files_of_a_job_are_listed(say, job):
    code, out, _ = await say("results", job.id, "--list")
    assert code == 0
    assert out.splitlines()[-1].split(maxsplit=3) == ["big", "953.7", "MiB", "It is too large."]
    code, out, _ = await say("results", job.id, "--list", "-o", "json")
    assert models.JobResults.model_validate_json(out).files[0].path == "model.pt"
    code, _, _ = await say("results", job.id, "-o", "json")
    assert code == 2, "only the list can be printed as JSON"


async def test_files_of_a_job_are_copied_but_for_hidden_and_missing_ones(say, job, tmp_path):
    to = tmp_path / "to"
    code, _, err = await say("results", job.id, "--to", str(to))
    assert code == 2
    assert f"There is no folder '{to}' here" in err
    to.mkdir()
    code, out, err = await say("results", job.id, "--to", str(to))
    assert code == 0
    assert out.splitlines() == [f"{to}/model.pt", f"{to}/plots/loss.png"]
    assert [line.split(":")[0] for line in err.splitlines()] == ["'.bashrc'", "'big'"]
    assert (to / "plots/loss.png").read_bytes() == b"png"
    code, out, _ = await say("results", job.id, "model.pt", "--to", str(to))
    assert (code, out) == (0, f"{to}/model.pt (unchanged)\n")
    code, _, _ = await say("results", job.id, ".bashrc", "--to", str(to))
    assert code == 0
    assert (to / ".bashrc").read_bytes() == b"evil", "it was named"


async def test_copies_replace_nothing_unasked(say, job, tmp_path):
    (tmp_path / "model.pt").write_bytes(b"mine")
    code, out, err = await say("results", job.id, "--to", str(tmp_path))
    assert (code, out) == (2, "")
    assert "'model.pt' is there already and differs" in err
    assert "--force replaces" in err
    assert (tmp_path / "model.pt").read_bytes() == b"mine"
    code, _, _ = await say("results", job.id, "model.pt", "--to", str(tmp_path), "--force")
    assert code == 0
    assert (tmp_path / "model.pt").read_bytes() == b"weights"


@pytest.mark.parametrize("name", ["gone", "big", "../x"])
async def test_a_file_that_did_not_come_back_is_refused(say, job, tmp_path, name):
    code, _, _ = await say("results", job.id, name, "--to", str(tmp_path))
    assert code == 2
    assert list(tmp_path.glob(f"**/{name.rpartition('/')[2]}")) == []


async def test_a_file_that_is_shorter_than_listed_is_not_copied(say, job, world, tmp_path):
    world.bundles.brought[job.id, "files/model.pt"] = b"short"
    code, _, err = await say("results", job.id, "model.pt", "--to", str(tmp_path))
    assert code == 1
    assert "'model.pt' was changed or deleted after the job ended, so it is not copied." in err
    assert not (tmp_path / "model.pt").exists()


async def test_a_file_that_cannot_be_copied_is_told_and_all_others_are_copied(say, job, tmp_path):
    (tmp_path / "plots").write_bytes(b"mine")
    code, out, err = await say("results", job.id, "--to", str(tmp_path))
    assert (code, out) == (1, f"{tmp_path}/model.pt\n")
    assert "'plots' is a link or a file here" in err


async def test_a_job_that_has_brought_nothing_back_is_told(say, people, bundle):
    job = (await people["ann"].submit(submission(bundle)))[0]
    code, _, err = await say("results", job.id)
    assert code == 3
    assert "has brought nothing back" in err


async def test_files_that_the_list_leaves_out_are_counted_and_copied_by_name(say, people, world, bundle, tmp_path):
    job = (await people["ann"].submit(submission(bundle)))[0]
    world.bundles.listed[job.id] = {"files": [{"path": "a", "bytes": 1}], "omitted_files": 101}
    world.bundles.brought |= {(job.id, "files/a"): b"a", (job.id, "files/model.pt"): b"late"}
    to = str(tmp_path)
    code, out, err = await say("results", job.id, "--to", to)
    assert (code, out, "101 more files are not listed. Copy them by name" in err) == (0, f"{to}/a\n", True)
    assert "101 more files are not listed" in (await say("results", job.id, "--list"))[1]
    code, out, err = await say("results", job.id, "--to", to, "model.pt")
    assert (code, out, err) == (0, f"{to}/model.pt\n", "")
    assert (tmp_path / "model.pt").read_bytes() == b"late"
    world.bundles.brought[job.id, "files/--force"] = b"named like an option"
    for words in (("--",), ("model.pt", "--")):  # argparse leaves these names over, which stand behind an option
        assert (await say("results", job.id, "--to", to, *words, "--force"))[0] == 0
        assert (tmp_path / "--force").read_bytes() == b"named like an option"
    code, _, err = await say("results", job.id, "gone", "--to", to)
    assert (code, "'gone': The job's list does not name it" in err) == (2, True)
