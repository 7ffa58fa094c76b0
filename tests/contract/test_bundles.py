"""The files of jobs: everything or nothing, and clear answers."""

import json
import stat

import pytest

from jupyter_gq.backends.local import LocalBundles
from jupyter_gq.domain.errors import BackendError, Conflict, StorageFull, TooLarge

BUNDLE = {"manifest": {"cwd": "/"}, "notebook": {"cells": ["ä"]}}


@pytest.fixture
def bundles(tmp_path):
    return LocalBundles(tmp_path / "state")


def test_a_bundle_is_written_for_its_owner_alone(bundles, tmp_path):
    bundles.write("job-1", "ann", BUNDLE, 1000)
    folder = tmp_path / "state/jobs/job-1"
    assert json.loads((folder / "bundle.json").read_text()) == BUNDLE
    assert sorted(path.name for path in folder.iterdir()) == ["bundle.json", "checkpoint"]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]}
    assert modes == {"job-1": 0o700, "bundle.json": 0o600, "checkpoint": 0o700}


@pytest.mark.parametrize(("system_users", "mode"), [(False, 0o750), (True, 0o751)])
def test_a_folder_that_was_there_before_stays_as_the_admin_made_it(tmp_path, system_users, mode):
    tmp_path.chmod(0o750)
    LocalBundles(tmp_path, system_users=system_users)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "runs").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "jobs").stat().st_mode) == (0o711 if system_users else 0o700)


def test_before_there_is_a_notebook_or_a_log_there_is_none(bundles):
    bundles.write("job-1", "ann", BUNDLE, 1000)
    assert bundles.executed_notebook("job-1", "ann") is None
    assert bundles.log("job-1", "ann", 1000) is None
    assert bundles.log("job-2", "ann", 1000) is None


def test_a_bundle_above_the_limit_is_refused_with_numbers(bundles, tmp_path):
    with pytest.raises(TooLarge, match=r"2\.0 MiB, but the limit is 1\.0 MiB"):
        bundles.write("job-1", "ann", {"x": "y" * 2 * 1024 * 1024}, 1024 * 1024)
    assert not (tmp_path / "state/jobs/job-1").exists()


def test_an_id_is_used_once(bundles, tmp_path):
    bundles.write("job-1", "ann", BUNDLE, 1000)
    with pytest.raises(Conflict):
        bundles.write("job-1", "ann", {}, 1000)
    assert (tmp_path / "state/jobs/job-1/bundle.json").exists(), "the first one stays"


def test_ids_cannot_leave_the_folder(bundles):
    with pytest.raises(BackendError):
        bundles.write("../job", "ann", BUNDLE, 1000)


def test_a_notebook_that_is_not_one_is_none(bundles, tmp_path):
    bundles.write("job-1", "ann", BUNDLE, 1000)
    file = tmp_path / "state/jobs/job-1/output.ipynb"
    for content in ("", "{", "[]"):
        file.write_text(content)
        assert bundles.executed_notebook("job-1", "ann") is None
    file.write_text('{"cells": []}')
    assert bundles.executed_notebook("job-1", "ann") == {"cells": []}


def test_the_log_is_that_of_the_newest_run_with_all_its_tasks(bundles, tmp_path):
    bundles.write("job-1", "ann", BUNDLE, 1000)
    for run, task, text in ((2, 0, "old"), (10, 0, "x" * 50 + "zero"), (10, 1, "one")):
        folder = tmp_path / f"state/jobs/job-1/runs/{run}/{task}"
        folder.mkdir(parents=True)
        (folder / "log").write_text(text)
    assert bundles.log("job-1", "ann", 8) == "== task 0 ==\nzero\n== task 1 ==\none"


def test_a_full_disk_keeps_nothing(small_disk):
    bundles = LocalBundles(small_disk)
    with pytest.raises(StorageFull):
        bundles.write("job-1", "ann", {"x": "y" * 600_000}, 10**6)
    assert list((small_disk / "jobs").iterdir()) == []
    bundles.write("job-1", "ann", BUNDLE, 10**6)
