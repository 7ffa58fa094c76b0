"""A job that takes files along sees them as they were at sending, in its own folder, beside the rest of the other."""

import json

from jupyter_gq.runner.files import project

from .conftest import Job


def test_a_module_and_a_file_are_those_of_the_sending_and_the_rest_is_that_of_the_folder(job: Job) -> None:
    job.cwd.mkdir()
    (job.cwd / "model.py").write_text("WIDTH = 'edited since'")
    (job.cwd / "nets").mkdir()
    (job.cwd / "nets" / "large.bin").write_text("stays")
    (job.cwd / "data.csv").write_text("stays too")
    job.files = {"model.py": b"WIDTH = 7\n", "nets/__init__.py": b"", "nets/conv.py": b"DEPTH = 3\n", "a.txt": b"x"}
    job.target(
        "import model, nets.conv, os\n"
        "print(model.WIDTH, nets.conv.DEPTH, open('a.txt').read())\n"
        "print(open('nets/large.bin').read(), open('data.csv').read())\n"
        "print(os.getcwd() == os.environ['GQ_RESULTS_DIR'])"
    )
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    text = "".join(output.get("text", "") for output in job.notebook()["cells"][-1]["outputs"])
    assert text == "7 3 x\nstays stays too\nTrue\n"
    assert (job.cwd / "model.py").read_text() == "WIDTH = 'edited since'"


def test_what_the_job_writes_comes_back_and_what_it_took_along_does_not(job: Job) -> None:
    job.files = {"model.py": b"WIDTH = 7\n", "config.yaml": b"lr: 1\n"}
    job.target(
        "import model, os\n"
        "open('config.yaml', 'a').write('lr: 2')\n"
        "os.makedirs('plots'); open('plots/loss.txt', 'w').write('0.1')"
    )
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    listed = json.loads((job.folder / "results.json").read_text())["files"]
    assert [file["path"] for file in listed] == ["config.yaml", "plots/loss.txt"]
    assert not (job.cwd / "plots").exists()


def test_a_written_file_of_an_earlier_run_is_a_result_and_stays_as_it_was_in_the_notebook_s_folder(job: Job) -> None:
    (job.cwd / "plots").mkdir(parents=True)
    for path in ("out.csv", "plots/loss.txt", "plots/other.txt"):
        (job.cwd / path).write_text("earlier")
    job.files = {"model.py": b"WIDTH = 7\n"}
    job.manifest = {"written": ["out.csv", "plots/loss.txt", "none/new.txt", "../out"]}
    job.target(
        "import os\n"
        "print(sorted(os.listdir()), sorted(os.listdir('plots')))\n"
        "for path in ('out.csv', 'plots/loss.txt'):\n"
        "    open(path, 'w').write('new')"
    )
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    text = "".join(output.get("text", "") for output in job.notebook()["cells"][-1]["outputs"])
    assert text == "['model.py', 'plots'] ['other.txt']\n"
    listed = json.loads((job.folder / "results.json").read_text())["files"]
    assert [file["path"] for file in listed] == ["out.csv", "plots/loss.txt"]
    assert {(job.cwd / path).read_text() for path in ("out.csv", "plots/loss.txt")} == {"earlier"}


def test_a_job_without_files_has_a_folder_of_its_own_too(job: Job) -> None:
    (job.cwd / "ckpt").mkdir(parents=True)
    for path in ("out.csv", "data.csv", "ckpt/0.pt"):
        (job.cwd / path).write_text("of the user")
    job.manifest = {"own_folder": True, "written": ["out.csv", "ckpt/0.pt"], "folders": ["ckpt"]}
    job.target(
        "import os\n"
        "print(open('data.csv').read(), os.getcwd() == os.environ['GQ_RESULTS_DIR'])\n"
        "for path in ('out.csv', 'ckpt/0.pt', 'unforeseen.csv'):\n"
        "    open(path, 'w').write('of the job')"
    )
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    text = "".join(output.get("text", "") for output in job.notebook()["cells"][-1]["outputs"])
    assert text == "of the user True\n"
    listed = json.loads((job.folder / "results.json").read_text())["files"]
    assert [file["path"] for file in listed] == ["out.csv", "unforeseen.csv", "ckpt/0.pt"]
    assert {(job.cwd / path).read_text() for path in ("out.csv", "data.csv", "ckpt/0.pt")} == {"of the user"}
    assert not (job.cwd / "unforeseen.csv").exists()


def test_a_job_without_a_folder_of_its_own_works_in_that_of_the_notebook(job: Job) -> None:
    job.cwd.mkdir()
    job.target("open('out.csv', 'w').write('of the job')")
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert (job.cwd / "out.csv").read_text() == "of the job"


def test_a_folder_of_its_own_is_there_on_a_machine_without_the_notebook_s(job: Job) -> None:
    job.manifest = {"own_folder": True, "cwd": "/gone/since"}
    job.target("import os; print(os.listdir()); open('out.csv', 'w').write('1')")
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert [file["path"] for file in json.loads((job.folder / "results.json").read_text())["files"]] == ["out.csv"]


def test_a_folder_into_which_the_job_writes_is_its_own_with_links_to_the_files_in_it(job: Job) -> None:
    (job.cwd / "ckpt").mkdir(parents=True)
    (job.cwd / "ckpt" / "0.pt").write_text("earlier")
    (job.cwd / "data" / "plots").mkdir(parents=True)
    for number in range(project.MOST_LINKED + 1):
        (job.cwd / "data" / f"{number}.txt").touch()
    job.files = {"model.py": b"WIDTH = 7\n"}
    job.manifest = {"folders": ["ckpt", "elsewhere/plots", "model.py/x", "../out", "data/plots"]}
    job.target(
        "print(open('ckpt/0.pt').read())\n"
        "for path in ('ckpt/1.pt', 'elsewhere/plots/a.txt'):\n"
        "    open(path, 'w').write('new')\n"
        "import os; assert os.path.islink('data')"
    )
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    listed = json.loads((job.folder / "results.json").read_text())["files"]
    assert [file["path"] for file in listed] == ["ckpt/1.pt", "elsewhere/plots/a.txt"]
    assert [path.name for path in (job.cwd / "ckpt").iterdir()] == ["0.pt"]


def test_the_user_s_repository_is_out_of_reach(job: Job) -> None:
    """Among links, `git add -A` would store the links in it."""
    for path in (".git/HEAD", "nets/.git", "data/.git/HEAD", "data/a.csv"):
        (job.cwd / path).parent.mkdir(parents=True, exist_ok=True)
        (job.cwd / path).write_text("ref: refs/heads/main")
    job.files = {"nets/conv.py": b"DEPTH = 3\n"}
    job.target("import os\nprint([os.path.exists(path) for path in ('.git', 'nets/.git', 'data/.git/HEAD')])")
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert job.notebook()["cells"][-1]["outputs"][0]["text"] == "[False, False, True]\n", "data is a link as a whole"


def test_links_that_are_too_many_are_told_in_the_log(job: Job) -> None:
    job.cwd.mkdir()
    for number in range(project.MOST_LINKS + 2):
        (job.cwd / f"{number:05d}.txt").touch()
    job.files = {"model.py": b"WIDTH = 7\n"}
    job.target("import os; print(len(os.listdir()))")
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    said = f"The job has links to 10,000 files and folders of {job.cwd}. It lacks 2 more: put them into a folder"
    assert said in job.log()


def test_a_file_that_cannot_come_back_is_named_with_the_reason(job: Job) -> None:
    job.files = {"model.py": b"WIDTH = 7\n"}
    job.target(
        "import os\n"
        "for name in (b'a\\nb', b'\\xff', b'/'.join([b'f'] * 200)):\n"
        "    os.makedirs(os.path.dirname(name) or b'.', exist_ok=True); open(name, 'w').write('x')\n"
        "os.symlink('/etc', 'folder'); os.mkfifo('pipe')"
    )
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    first, second, third = json.loads((job.folder / "results.json").read_text())["files"]
    why = "It cannot be brought back, because it {}. Rename it in the job."
    assert first == {"path": "a\\nb", "bytes": 1, "reason": why.format("has control characters")}
    assert second == {"path": "\\udcff", "bytes": 1, "reason": why.format("is not valid text")}
    assert (len(third["path"]), third["reason"]) == (201, why.format("has more than 100 names"))


def test_a_later_run_finds_what_the_first_one_left_and_not_the_files_anew(job: Job) -> None:
    job.files = {"model.py": b"WIDTH = 7\n"}
    job.target("open('model.py', 'a').write('DEPTH = 3\\n'); print(open('model.py').read())").run()
    job.run(2)
    text = "".join(output.get("text", "") for output in job.notebook()["cells"][-1]["outputs"])
    assert text == "WIDTH = 7\nDEPTH = 3\nDEPTH = 3\n\n"


def test_incomplete_files_end_the_run_with_a_sentence(job: Job) -> None:
    job.files = {"model.py": b"WIDTH = 7\n"}
    job.target("1").write_bundle()
    (job.folder / "files.pack").write_bytes(b"WIDTH = 8\n")
    job.files, write = {}, job.write_bundle
    job.write_bundle = lambda: None  # the pack stays as it is
    assert job.run()["sentence"] == "The file model.py of this job is incomplete. Send the cell again."
    job.write_bundle = write


def test_a_manifest_cannot_write_outside_of_the_folder(job: Job) -> None:
    job.files = {"../escape.py": b"1"}
    assert "is not a path below the folder" in job.target("1").run()["sentence"]
    assert not (job.folder / "results" / "escape.py").exists()


def test_the_newest_file_is_the_newest_in_the_job_too(job: Job) -> None:
    job.files = {"a.npy": b"a", "b.npy": b"b", "c.npy": b"c"}
    job.times = {"a.npy": 2e9, "b.npy": 1e9 + 0.25}
    job.target(
        "import os\nfrom pathlib import Path\n"
        "print(max(Path().glob('*.npy'), key=os.path.getmtime), os.path.getmtime('b.npy'))"
    )
    job.run()
    (output,) = job.notebook()["cells"][-1]["outputs"]
    assert output["text"] == "a.npy 1000000000.25\n"
