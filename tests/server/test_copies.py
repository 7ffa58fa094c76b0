"""Files that a job wrote are copied beside its notebook: whole, nowhere else, and over nothing that differs."""

import json
import os
from pathlib import Path

import pytest

from tests.server.service import Service, a_job

CONTENT = bytes(range(25))
ENDED = 1000.0


class Job:
    """Job job-7f3 of the service, sent from `work/a.ipynb`, with these files."""

    def __init__(self, service: Service) -> None:
        self._service, self._files, self.omitted = service, {}, 0
        self.is_of("work/a.ipynb")

    def is_of(self, notebook: str) -> None:
        """Let the job have been sent from this notebook."""
        job = a_job(phase="done", notebook_path=notebook, finished_at=ENDED)
        self._service.answers["GET", "jobs/job-7f3"] = (200, job)

    def wrote_unlisted(self, path: str) -> None:
        """Let the job have written this file, which its list leaves out."""
        self._service.contents["jobs/job-7f3/results/content", f"files/{path}"] = CONTENT

    def wrote(self, path: str, content: bytes = CONTENT, *, listed: int | None = None, reason: str = "") -> None:
        """Let the job have written this file; `listed` is its size in the list, if that is wrong."""
        size = len(content) if listed is None else listed
        self._files[path] = {"path": path, "bytes": size, "reason": reason}
        listed_files = {"files": list(self._files.values()), "omitted_files": self.omitted}
        self._service.answers["GET", "jobs/job-7f3/results"] = (200, listed_files)
        self._service.contents["jobs/job-7f3/results/content", f"files/{path}"] = content


@pytest.fixture
def job(service):
    return Job(service)


@pytest.fixture
def work(jp_root_dir) -> Path:
    """Return the folder of the notebook."""
    folder = jp_root_dir / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def copy(on_hub, jp_fetch):
    """Return a function that copies files; it returns the status and the lines of the answer."""

    async def ask(*paths: str, **fields):
        body = json.dumps({"paths": paths, **fields})
        place = ("jupyter-gq", "jobs", "job-7f3", "copies")
        answer = await jp_fetch(*place, method="POST", body=body, raise_error=False)
        return answer.code, [json.loads(line) for line in answer.body.decode().splitlines()]

    return ask


def tree(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder, hidden ones too, with their contents."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


async def test_all_files_are_copied_under_their_paths_and_the_answer_says_how_far_it_is(copy, job, work):
    job.wrote("model.pt")
    job.wrote("plots/ü/loss.png", b"png")
    job.wrote("empty", b"")
    status, news = await copy()
    assert status == 200
    assert tree(work) == {"model.pt": CONTENT, "plots/ü/loss.png": b"png", "empty": b""}
    assert [(line["path"], line["done"], line["total"]) for line in news[:4]] == [
        ("model.pt", 0, 28),
        ("model.pt", 10, 28),
        ("model.pt", 20, 28),
        ("model.pt", 25, 28),
    ]
    copied = {each["path"]: each["target"] for each in news[-1]["copied"]}
    assert copied == {
        "model.pt": "work/model.pt",
        "plots/ü/loss.png": "work/plots/ü/loss.png",
        "empty": "work/empty",
    }


async def test_one_file_is_copied_alone(copy, job, work):
    job.wrote("a.txt")
    job.wrote("b.txt")
    assert (await copy("b.txt"))[0] == 200
    assert list(tree(work)) == ["b.txt"]


async def test_a_notebook_that_was_moved_gets_its_files_where_it_is_now(copy, job, work, jp_root_dir):
    job.wrote("model.pt")
    (jp_root_dir / "moved").mkdir()
    _, news = await copy(notebook_path="moved/b.ipynb")
    assert news[-1]["copied"] == [{"path": "model.pt", "target": "moved/model.pt", "unchanged": False}]
    assert (list(tree(work)), list(tree(jp_root_dir / "moved"))) == ([], ["model.pt"])
    assert (await copy(notebook_path="../b.ipynb"))[0] == 422


async def test_a_notebook_in_the_root_folder_gets_its_files_there(copy, job, jp_root_dir):
    job.is_of("RTC:a.ipynb")
    job.wrote("model.pt")
    _, news = await copy()
    assert news[-1]["copied"] == [{"path": "model.pt", "target": "model.pt", "unchanged": False}]
    assert (jp_root_dir / "model.pt").read_bytes() == CONTENT


@pytest.mark.parametrize("before", [b"short", bytes(25)], ids=["other size", "same size"])
async def test_a_file_that_differs_is_asked_about_and_nothing_is_copied(copy, job, work, before):
    job.wrote("model.pt")
    job.wrote("log.txt")
    (work / "model.pt").write_bytes(before)
    os.utime(work / "model.pt", (ENDED + 5, ENDED + 5))
    status, (conflict,) = await copy()
    assert (status, conflict["code"]) == (409, "files_exist")
    (file,) = conflict["files"]
    assert file.pop("version")
    assert file == {"path": "model.pt", "kind": "file", "bytes": len(before), "changed_at": ENDED + 5, "newer": True}
    assert "'model.pt' is there already and differs" in conflict["message"]
    assert tree(work) == {"model.pt": before}


async def test_a_file_with_the_same_content_is_left_as_it_is(copy, job, work):
    job.wrote("model.pt")
    await copy()
    before = (work / "model.pt").stat()
    status, news = await copy()
    assert (status, news[-1]["copied"][0]["unchanged"]) == (200, True)
    assert (work / "model.pt").stat().st_ino == before.st_ino


async def test_a_file_is_replaced_if_the_user_chooses_so(copy, job, work):
    job.wrote("model.pt")
    (work / "model.pt").write_bytes(b"mine")
    assert (await copy(existing="replace"))[0] == 200
    assert tree(work) == {"model.pt": CONTENT}


async def test_a_file_that_was_saved_since_the_question_is_asked_about_again(copy, job, work):
    job.wrote("model.pt")
    (work / "model.pt").write_bytes(b"mine")
    _, (asked,) = await copy()
    agreed = {file["path"]: file["version"] for file in asked["files"]}
    (work / "model.pt").write_bytes(b"mine, trained longer")
    assert (await copy(existing="replace", agreed=agreed))[0] == 409
    assert tree(work) == {"model.pt": b"mine, trained longer"}


async def test_what_was_kept_beside_another_file_is_found_again_without_a_question(copy, job, work):
    job.wrote("model.pt")
    (work / "model.pt").write_bytes(b"mine")
    await copy(existing="keep_both")
    status, news = await copy()
    assert (status, news[-1]["copied"]) == (
        200,
        [{"path": "model.pt", "target": "work/model (job 7f3).pt", "unchanged": True}],
    )
    job.wrote("loss.png")
    (work / "loss.png").write_bytes(b"mine")
    status, (conflict,) = await copy()
    assert (status, [each["path"] for each in conflict["files"]]) == (409, ["model.pt", "loss.png"])
    assert tree(work) == {"model.pt": b"mine", "model (job 7f3).pt": CONTENT, "loss.png": b"mine"}


async def test_both_files_are_kept_if_the_user_chooses_so_and_the_copy_is_found_again(copy, job, work):
    job.wrote("model.pt")
    (work / "model.pt").write_bytes(b"mine")
    for _ in range(2):
        _, news = await copy(existing="keep_both")
        assert news[-1]["copied"][0]["target"] == "work/model (job 7f3).pt"
    (work / "model (job 7f3).pt").write_bytes(b"mine too")
    await copy(existing="keep_both")
    assert tree(work) == {
        "model.pt": b"mine",
        "model (job 7f3).pt": b"mine too",
        "model (job 7f3, 2).pt": CONTENT,
    }


@pytest.mark.parametrize(
    "path",
    [
        "../out.txt",
        "/etc/out.txt",
        "a/../../out.txt",
        "a//b",
        ".",
        "",
        "a/./b",
        "x" * 300,
        "a\u2028b",
        "C:\\..\\..\x7f",
    ],
)
async def test_a_path_that_leads_out_of_the_folder_is_refused_even_if_the_job_lists_it(
    copy, job, work, jp_root_dir, path
):
    job.wrote(path)
    before = tree(jp_root_dir.parent)
    status, (problem,) = await copy(path)
    assert status in {404, 422, 502}, problem
    status, lines = await copy()
    assert status == 200 if lines[-1].get("copied") == [] else status >= 400
    assert tree(jp_root_dir.parent) == before


@pytest.mark.parametrize("notebook", ["../a.ipynb", "work/../../a.ipynb", "../../../../etc/a.ipynb", "gone/a.ipynb"])
async def test_a_notebook_outside_of_the_root_or_that_is_gone_gets_no_files(copy, job, work, jp_root_dir, notebook):
    job.is_of(notebook)
    job.wrote("model.pt")
    before = tree(jp_root_dir.parent)
    status, (problem,) = await copy()
    assert status in {404, 422}, problem
    assert tree(jp_root_dir.parent) == before


async def test_no_file_goes_through_a_link(copy, job, work, jp_root_dir, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    job.wrote("plots/loss.png")
    (work / "plots").symlink_to(outside)
    for existing in ("ask", "replace", "keep_both"):
        status, (problem,) = await copy(existing=existing)
        assert (status, problem["code"]) == (422, "unsafe_path")
        assert "'plots' is a link or a file here" in problem["message"]
    (work / "plots").unlink()
    (jp_root_dir / "linked").symlink_to(outside)
    job.is_of("linked/a.ipynb")
    status, (problem,) = await copy()
    assert (status, problem["code"]) == (422, "unsafe_path")
    assert tree(outside) == {}


async def test_a_link_in_the_place_of_a_file_is_neither_followed_nor_replaced(copy, job, work, tmp_path):
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    job.wrote("model.pt")
    (work / "model.pt").symlink_to(target)
    status, (conflict,) = await copy()
    assert (status, [each["kind"] for each in conflict["files"]]) == (409, ["link"])
    assert (await copy(existing="replace"))[0] == 422
    assert (await copy(existing="keep_both"))[0] == 200
    assert (work / "model.pt").is_symlink()
    assert target.read_bytes() == b"precious"
    assert (work / "model (job 7f3).pt").read_bytes() == CONTENT


async def test_files_that_can_be_copied_are_and_the_others_are_told_with_the_reason(copy, job, work):
    for path in ("a.txt", "model.pt", "plots/loss.png", "z.txt"):
        job.wrote(path)
    (work / "model.pt").mkdir()
    (work / "plots").write_bytes(b"mine")
    status, news = await copy(existing="replace")
    assert (status, [each["path"] for each in news[-1]["copied"]]) == (200, ["a.txt", "z.txt"])
    blocked, folder = news[-1]["left_out"]
    assert "'plots' is a link or a file here" in folder, news[-1]
    assert blocked == "'model.pt' is a folder here, so it is not replaced. Rename it, then copy again."
    assert tree(work) == {"a.txt": CONTENT, "plots": b"mine", "z.txt": CONTENT}


async def test_hidden_files_stay_and_are_named(copy, job, work):
    job.wrote(".bashrc")
    job.wrote("a/.ssh/authorized_keys")
    job.wrote("ok.txt")
    _, news = await copy()
    assert [line.split(":")[0] for line in news[-1]["left_out"]] == ["'.bashrc'", "'a/.ssh/authorized_keys'"]
    assert (await copy(".bashrc"))[0] == 422
    assert list(tree(work)) == ["ok.txt"]


async def test_files_that_the_list_leaves_out_are_told_and_copied_by_name(copy, job, work):
    job.omitted = 101
    job.wrote("a")
    job.wrote_unlisted("model.pt")
    _, news = await copy()
    assert news[-1]["left_out"] == [
        "101 more files are not listed. Copy them by name; a cluster keeps only the newest 1."
    ]
    assert (await copy("model.pt"))[0] == 200
    assert tree(work) == {"a": CONTENT, "model.pt": CONTENT}
    status, (problem,) = await copy("gone")
    assert (status, "does not name it" in problem["message"]) == (404, True)


async def test_a_file_without_content_says_why(copy, job, work):
    job.wrote("huge.bin", b"", listed=10**12, reason="It is too large.")
    _, news = await copy()
    assert news[-1]["left_out"] == ["'huge.bin': It is too large."]
    status, (problem,) = await copy("huge.bin")
    assert (status, problem["message"]) == (422, "'huge.bin': It is too large.")


async def test_a_file_for_which_the_disk_has_no_room_is_refused_before_it_is_fetched(copy, job, service, work):
    job.wrote("huge.bin", b"1", listed=10**15)
    status, (problem,) = await copy()
    assert (status, problem["code"]) == (507, "disk_full")
    assert not any("results/content" in path for _, path in service.asked)


@pytest.mark.parametrize("listed", [26, 24], ids=["too little", "too much"])
async def test_a_file_that_does_not_come_as_listed_leaves_nothing(copy, job, work, listed):
    job.wrote("good.txt")
    job.wrote("plots/bad.txt", listed=listed)
    status, news = await copy()
    assert status == 200
    assert [each["path"] for each in news[-1]["copied"]] == ["good.txt"]
    assert news[-1]["left_out"] == ["'plots/bad.txt' was changed or deleted after the job ended, so it is not copied."]
    assert tree(work) == {"good.txt": CONTENT}
    assert not (work / "plots").exists()


async def test_a_service_that_goes_away_leaves_no_part_of_a_file(copy, job, service, work):
    class GoneAfterTwoParts(dict):
        left = 2

        def get(self, key, default=None):
            self.left -= 1
            return super().get(key, default) if self.left >= 0 else None

    job.wrote("model.pt")
    service.contents = GoneAfterTwoParts(service.contents)
    status, news = await copy()
    assert (status, bool(news[-1]["problem"])) == (200, True)
    assert tree(work) == {}


async def test_a_page_that_goes_away_ends_the_copies_and_leaves_no_part(job, on_hub, leave_early, service, work, until):
    job.wrote("model.pt", bytes(10**5))
    assert await leave_early("POST", "jobs", "job-7f3", "copies") == 200
    await until(lambda: tree(work) == {}, lambda: tree(work))
    asked = len(service.asked)
    assert asked < 10**4, "it did not fetch the whole file"


@pytest.mark.parametrize(
    "body", [{"paths": "a"}, {"paths": ["a"] * 1001}, {"existing": "overwrite"}, {"paths": [5]}, [], "x"]
)
async def test_a_request_that_is_wrong_is_refused_with_its_field(on_hub, fetch, job, body):
    status, problem = await fetch("POST", "jobs", "job-7f3", "copies", body=body)
    assert (status, problem["code"]) == (422, "invalid_request")


async def test_a_job_of_which_the_service_knows_no_results_is_refused_as_the_service_says(on_hub, fetch, service):
    status, problem = await fetch("POST", "jobs", "job-7f3", "copies", body={})
    assert (status, problem["code"]) == (404, "not_found")


async def test_a_folder_that_cannot_be_written_is_a_sentence(copy, job, work):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    job.wrote("model.pt")
    work.chmod(0o500)
    status, (problem, *_) = await copy()
    work.chmod(0o700)
    assert "Permission denied" in json.dumps(problem), status
