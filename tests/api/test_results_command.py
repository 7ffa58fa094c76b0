"""The command that lists and copies the files of a job: what it prints, what it writes, and its exit codes.

Runs the commands of docs/how-to/get-results-back.md.
"""

import pytest

from jupyter_gq.client import models

from .world import submission

pytestmark = pytest.mark.asyncio


async def test_files_of_a_job_are_listed_and_copied_and_replace_nothing_unasked(say, people, world, bundle, tmp_path):
    job = (await people["ann"].submit(submission(bundle)))[0]
    files = {"model.pt": b"weights", "plots/loss.png": b"png", ".bashrc": b"evil"}
    listed = [{"path": path, "bytes": len(content)} for path, content in files.items()]
    world.bundles.listed[job.id] = {"files": [*listed, {"path": "big", "bytes": 10**9, "reason": "It is too large."}]}
    world.bundles.contents |= {(job.id, f"files/{path}"): content for path, content in files.items()}
    code, out, _ = await say("results", job.id, "--list")
    assert (code, out.splitlines()[-1].split(maxsplit=3)) == (0, ["big", "953.7", "MiB", "It is too large."])
    code, out, _ = await say("results", job.id, "--list", "-o", "json")
    assert models.JobResults.model_validate_json(out).files[0].path == "model.pt"

    to = tmp_path / "to"
    code, _, err = await say("results", job.id, "--to", str(to))
    assert (code, f"There is no folder '{to}' here" in err) == (2, True)
    to.mkdir()
    code, out, err = await say("results", job.id, "--to", str(to))
    assert (code, out.splitlines()) == (0, [f"{to}/model.pt", f"{to}/plots/loss.png"])
    assert [line.split(":")[0] for line in err.splitlines()] == ["'.bashrc'", "'big'"]
    assert (to / "plots/loss.png").read_bytes() == b"png"
    assert (await say("results", job.id, "model.pt", "--to", str(to)))[:2] == (0, f"{to}/model.pt (unchanged)\n")

    (to / "model.pt").write_bytes(b"mine")
    code, out, err = await say("results", job.id, "--to", str(to))
    assert (code, out, "'model.pt' is there already and differs" in err, "--force replaces" in err) == (
        2,
        "",
        True,
        True,
    )
    assert (to / "model.pt").read_bytes() == b"mine"
    assert (await say("results", job.id, "model.pt", ".bashrc", "--to", str(to), "--force"))[0] == 0
    assert (to / "model.pt").read_bytes() == b"weights"
    assert (to / ".bashrc").read_bytes() == b"evil", "it was named"

    for name, code in (("gone", 2), ("big", 2), ("../x", 2)):
        assert (await say("results", job.id, name, "--to", str(to)))[0] == code
    world.bundles.contents[job.id, "files/model.pt"] = b"short"
    (to / "model.pt").unlink()
    code, _, err = await say("results", job.id, "model.pt", "--to", str(to))
    assert (code, "so not copied: 'model.pt'" in err, (to / "model.pt").exists()) == (1, True, False)
    assert (await say("results", job.id, "-o", "json"))[0] == 2
    other = (await people["ann"].submit(submission(bundle)))[0]
    assert (await say("results", other.id))[0] == 3


async def test_files_that_the_list_leaves_out_are_counted_and_copied_by_name(say, people, world, bundle, tmp_path):
    job = (await people["ann"].submit(submission(bundle)))[0]
    world.bundles.listed[job.id] = {"files": [{"path": "a", "bytes": 1}], "omitted_files": 101}
    world.bundles.contents |= {(job.id, "files/a"): b"a", (job.id, "files/model.pt"): b"late"}
    to = str(tmp_path)
    code, out, err = await say("results", job.id, "--to", to)
    assert (code, out, "101 more files are not listed. Copy them by name" in err) == (0, f"{to}/a\n", True)
    assert "101 more files are not listed" in (await say("results", job.id, "--list"))[1]
    code, out, err = await say("results", job.id, "--to", to, "model.pt")
    assert (code, out, err) == (0, f"{to}/model.pt\n", "")
    assert (tmp_path / "model.pt").read_bytes() == b"late"
    world.bundles.contents[job.id, "files/--force"] = b"named like an option"
    for words in (("--",), ("model.pt", "--")):  # argparse leaves these names over, which stand behind an option
        assert (await say("results", job.id, "--to", to, *words, "--force"))[0] == 0
        assert (tmp_path / "--force").read_bytes() == b"named like an option"
    code, _, err = await say("results", job.id, "gone", "--to", to)
    assert (code, "'gone': The job's list does not name it" in err) == (2, True)
