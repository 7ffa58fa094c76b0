"""After any failure the owner gets one sentence, and the outputs until then stay."""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gq.client.exit_status import DISK_FULL, RESULT_NOT_WRITTEN
from tests.patience import scaled

from .conftest import Job, Service, eventually, whole_lines


def test_exception_of_the_target(job: Job, service: Service) -> None:
    job.target("print('before')\n1 / 0")
    result = job.run()
    assert (result["outcome"], result["ename"], result["evalue"]) == (
        "FAILED",
        "ZeroDivisionError",
        "division by zero",
    )
    assert result["sentence"] == (
        "The cell raised ZeroDivisionError: division by zero. Correct the cell and send it again."
    )
    text, error = service.outputs()
    assert text["text"] == "before\n"
    assert error["output_type"] == "error"
    assert "1 / 0" not in result["sentence"]
    assert job.process.returncode == 1


def test_a_cell_that_may_raise_ends_nothing(job: Job, service: Service) -> None:
    """Its tag is one of Jupyter, which nbconvert and JupyterLab obey too."""
    job.prefix("1 / 0", "replayed").target("print('before')\n1 / 0").target("!exit 3", "last")
    job.tags = {cell: ["raises-exception"] for cell in ("replayed", "target", "last")}
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert [output["output_type"] for output in service.outputs()] == ["stream", "error"]


def test_a_script_is_named_as_its_owner_knows_it(job: Job) -> None:
    job.prefix("__file__ = 'train.py'", "arguments").target("1 / 0", "script")
    assert job.run()["sentence"] == (
        "The script raised ZeroDivisionError: division by zero. Correct the script and send it again."
    )


def test_a_function_that_cannot_be_loaded_is_told(job: Job) -> None:
    job.prefix("# train(3)\nimport no_such_module", "setup-1").target("result = _call()", "call")
    assert job.run()["sentence"] == (
        "The load of the function raised ModuleNotFoundError: No module named 'no_such_module'. "
        "Install the package where the kernel of the job runs, then send the function again."
    )


def test_failing_prefix_cell_is_named_and_the_target_does_not_run(job: Job, service: Service) -> None:
    job.prefix("a = 1", "one").prefix("import no_such_module\nb = 2", "two").target("print('never')")
    result = job.run()
    assert result["sentence"] == (
        "The replayed cell 2 of 2 (`import no_such_module`) raised ModuleNotFoundError: "
        "No module named 'no_such_module'. "
        "Install the package where the kernel of this notebook runs, then send the cell again."
    )
    assert service.text() == ""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python 3.14 raises RecursionError for this cell")
def test_a_cell_that_the_kernel_gives_up_without_a_reply_is_a_failure(job: Job, service: Service) -> None:
    job.prefix("print('before')").target(f"x = {'+'.join(['1'] * 20_000)}")
    result = job.run()
    assert (result["outcome"], result["ename"]) == ("FAILED", None)
    assert result["sentence"].startswith(
        "The cell ended without a result: the kernel could not execute it, as happens if"
    )
    assert job.process.returncode == 1


def test_input_is_refused_with_a_reason(job: Job) -> None:
    job.target("name = input('Your name? ')")
    assert "nobody can answer a training job" in job.run()["sentence"]


@pytest.mark.parametrize("code", ["exit(1)", "quit(1)", "import sys\nsys.exit(1)", "raise SystemExit(1)", "exit(True)"])
def test_exit_with_a_failure_is_a_failure(job: Job, service: Service, code: str) -> None:
    job.target(f"print('before')\n{code}")
    result = job.run()
    assert (result["outcome"], result["ename"], result["evalue"]) == ("FAILED", "SystemExit", "1")
    assert result["sentence"] == "The cell ended the job with exit status 1. Correct the cell and send it again."
    assert service.outputs()[0]["text"] == "before\n"


def test_exit_with_a_message_is_a_failure_that_says_it(job: Job) -> None:
    job.target("import sys\nsys.exit('no data left')")
    assert "The cell ended the job with exit: no data left." in job.run()["sentence"]


@pytest.mark.parametrize("code", ["exit()", "exit(0)", "import sys\nsys.exit()", "raise SystemExit"])
def test_exit_without_a_failure_is_a_success(job: Job, code: str) -> None:
    job.target(code)
    assert (job.run()["outcome"], job.process.returncode) == ("SUCCEEDED", 0)


def test_exit_before_the_last_cell_is_told(job: Job, service: Service) -> None:
    job.target("exit(0)", "one").target("print('never')", "two")
    result = job.run()
    assert result["outcome"] == "SUCCEEDED"
    assert result["sentence"] == (
        "Cell 1 of 2 (`exit(0)`) ended the job with exit(), so the cells after it did not run."
    )
    assert "never" not in service.text()


def test_exit_of_a_replayed_cell_is_a_failure(job: Job) -> None:
    job.prefix("exit()").target("print('never')")
    result = job.run()
    assert result["outcome"] == "FAILED"
    assert "The replayed cell 1 of 1 (`exit()`) ended the job with exit()" in result["sentence"]


@pytest.mark.parametrize(
    ("code", "command", "status"),
    [
        ("!false", "!false", 1),
        ("print('x')\n!exit 3\n# done\n", "!exit 3", 3),
        ("!ls \\\n  /no/such", "!ls    /no/such", 2),
        ("%time !exit 4", "!exit 4", 4),
        ("%pip install --no-index no-such-package", "%pip install --no-index no-such-package", 1),
        ("pip install --no-index no-such-package", "%pip install --no-index no-such-package", 1),
        ("if True:\n    !exit 3\nelse:\n    print('never')", "!exit 3", 3),
        ("for number in [0, 3]:\n    pass\n    !exit {number}", "!exit {number}", 3),
        ("try:\n    with open('a', 'w'):\n        !exit 3\nexcept OSError:\n    raise", "!exit 3", 3),
        ("%%capture\nif True:\n    !exit 3", "!exit 3", 3),
        ("%timeit -n 1 -r 1 !exit 3", "!exit 3", 3),
        ("def f(n):\n    print(n)\n    !exit {n}\nf(3)", "!exit {n}", 3),
    ],
)
def test_failing_command_at_the_end_is_a_failure(job: Job, code: str, command: str, status: int) -> None:
    job.target(code)
    result = job.run()
    assert result["outcome"] == "FAILED"
    assert result["sentence"] == (
        f"The cell ran, but its last command `{command}` ended with exit status {status}. "
        "What the command printed, if anything, says why."
    )


def test_a_failing_command_at_the_end_of_a_function_of_an_earlier_cell_is_a_failure(job: Job) -> None:
    job.prefix("def f(n):\n    '''Run it.'''\n    !true\n    !exit {n}", "one").target("x = 1\nf(3)")
    result = job.run()
    assert result["outcome"] == "FAILED"
    assert "its last command `!exit {n}` ended with exit status 3." in result["sentence"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("%run part.py", "The cell raised ZeroDivisionError: division by zero. Correct the cell and send it again."),
        ("run part.py", "The cell raised ZeroDivisionError: division by zero. Correct the cell and send it again."),
        (
            "%%capture shown\nprint('x')\n[][1]",
            "The cell raised IndexError: list index out of range. Correct the cell and send it again.",
        ),
        ("%run exit.py", "The cell ended the job with exit status 3. Correct the cell and send it again."),
        (
            "if True:\n    %run part.py",
            "The cell raised ZeroDivisionError: division by zero. Correct the cell and send it again.",
        ),
        (
            "%%capture shown\n!true\n[][1]",
            "The cell raised IndexError: list index out of range. Correct the cell and send it again.",
        ),
    ],
)
def test_an_error_that_a_magic_shows_at_the_end_is_a_failure(job: Job, code: str, said: str) -> None:
    """The kernel itself answers that all is well."""
    job.prefix("%%writefile part.py\n1 / 0", "one").prefix("%%writefile exit.py\nraise SystemExit(3)", "two").target(
        code
    )
    result = job.run()
    assert (result["outcome"], result["sentence"]) == ("FAILED", said)


@pytest.mark.parametrize("code", ["%%capture\nx = = 1", "%run part.py"])
def test_code_of_a_magic_that_is_no_python_is_a_failure(job: Job, code: str) -> None:
    job.prefix("%%writefile part.py\nx = = 1", "one").target(code)
    result = job.run()
    assert result["outcome"] == "FAILED"
    assert "The cell raised SyntaxError: " in result["sentence"]


@pytest.mark.parametrize(
    "code",
    [
        "%run part.py\nprint('went on')",
        "%run -e exit.py",
        "%tb",
        "%run part.py\n!true",
        "%run part.py\n%run fine.py",
        "for name in ['part', 'fine']:\n    %run {name}.py",
    ],
)
def test_errors_that_a_magic_shows_earlier_do_not_matter(job: Job, code: str) -> None:
    job.prefix("%%writefile part.py\n1 / 0", "one").prefix("%%writefile exit.py\nraise SystemExit(3)", "two")
    job.prefix("%%writefile fine.py\nprint(1)", "zero")
    job.prefix("%run part.py", "three").target(code)
    assert job.run()["outcome"] == "SUCCEEDED"


@pytest.mark.parametrize(
    "code",
    [
        *("!false\n!true", "!false\nprint('went on')", "!true", "x = !false", "!!true"),
        *("if False:\n    !false", "!false\nif False:\n    !false", "for x in 'ab':\n    !false\n    print(x)"),
        *("try:\n    !false\nfinally:\n    print('done')", "if True:\n    !true", 'print("""\n!false\n""")'),
        *("%%time\n!false\nprint('went on')", "for number in [3, 0]:\n    !exit {number}"),
        *("def f():\n    !false\n    print('went on')\nf()", "def f():\n    !false\nprint(f())"),
        *(
            "def f(early):\n    !false\n    if early: return\n    !false\nf(True)",
            "def f():\n    yield\n    !false\nf()",
        ),
        *("def f():\n    !true\nf()", "def f():\n    !false\nf = print\nf()", "def f():\n    !false\nx = f()"),
    ],
)
def test_commands_before_the_end_do_not_matter(job: Job, code: str) -> None:
    job.prefix("!false").target(code)
    assert job.run()["outcome"] == "SUCCEEDED"


def test_killed_kernel(job: Job, service: Service) -> None:
    job.target(
        "import os, signal, time\nprint('alive', flush=True)\ntime.sleep(0.5)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    result = job.run()
    how = [
        ", most often because the machine or its memory limit ran out of memory",
        " (SIGKILL), and not by Linux for want of memory",
    ]
    assert result["sentence"] in [f"The kernel was killed{each}; it was running the cell." for each in how]
    assert service.text() == "alive\n"


def test_kernel_ended_by_somebody(job: Job) -> None:
    """The end of a kernel is no pause if the run was not told to stop."""
    job.target("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nimport time; time.sleep(9)")
    assert job.run()["sentence"] == "The kernel was ended from outside (SIGTERM); it was running the cell."


def test_crashed_kernel(job: Job) -> None:
    job.prefix("import ctypes").target("ctypes.string_at(0)")
    assert "crashed (SIGSEGV)" in job.run()["sentence"]


def test_kernel_that_cannot_be_started(job: Job) -> None:
    job.kernel = {**job.kernel, "display_name": "Gone", "argv": ["/no/such/python", "-f", "{connection_file}"]}
    job.target("1")
    assert job.run()["sentence"] == (
        "The kernel 'python3' could not be started: /no/such/python: No such file or directory."
    )


def test_kernel_that_ends_at_once(job: Job) -> None:
    job.kernel = {**job.kernel, "argv": [sys.executable, "-c", "import sys; sys.exit('no such licence')"]}
    job.target("1")
    assert job.run()["sentence"] == (
        "The kernel 'python3' did not start: it ended by itself with exit code 1. The log has more."
    )
    assert "no such licence" in job.log()


def test_missing_working_folder(job: Job, tmp_path: Path) -> None:
    job.target("1")
    job.cwd = tmp_path / "gone"
    job.cwd.mkdir()
    job.write_bundle()
    job.write_bundle = lambda: shutil.rmtree(job.cwd, ignore_errors=True)
    assert job.run()["sentence"] == (f"The working folder {job.cwd} does not exist (any more), so nothing was run.")


@pytest.mark.parametrize("program", ["true", "false"])
def test_a_program_that_is_no_kernel_ran_no_cell(job: Job, program: str) -> None:
    job.kernel = {**job.kernel, "argv": [f"/bin/{program}"]}
    job.target("1")
    assert job.run()["sentence"] == (
        f"The kernel 'python3' did not start: it ended by itself with exit code {int(program == 'false')}. "
        "The log has more."
    )


def test_a_cell_that_ends_the_kernel_is_told_how(job: Job) -> None:
    job.target("import os\nos._exit(3)")
    assert job.run()["sentence"] == (
        "The kernel ended by itself with exit code 3, perhaps by exit() in the code; it was running the cell."
    )


def test_a_file_is_no_working_folder(job: Job, tmp_path: Path) -> None:
    job.target("1")
    file = job.cwd = tmp_path / "file"
    job.write_bundle()
    file.rmdir()
    file.touch()
    job.cwd, job.write_bundle = tmp_path, lambda: None
    assert job.run()["sentence"] == f"The working folder {file} is a file and no folder, so nothing was run."


def test_a_result_that_cannot_be_written_is_told_by_the_exit_status_and_the_last_line(job: Job) -> None:
    job.run_folder().joinpath("result.json", "in the way").mkdir(parents=True)
    job.target("print('computed')")
    job.start()
    assert job.process.wait(scaled(60)) == RESULT_NOT_WRITTEN
    assert job.log().splitlines()[-1] == "The job's own files could not be written: result.json: Is a directory."


def test_damaged_bundle(job: Job) -> None:
    job.target("1")
    job.folder.mkdir()
    job.cwd.mkdir()
    (job.folder / "bundle.json").write_text('{"manifest": {}')
    job.write_bundle = lambda: None
    assert job.run()["sentence"].startswith(
        "The job's bundle could not be read. The file bundle.json cannot be used: it is not valid JSON: "
    )


def test_output_is_delivered_from_memory_at_the_end_if_the_disk_is_full(job: Job, service: Service) -> None:
    """A device file that is always full stands in for the disk."""
    job.run_folder().mkdir(parents=True)
    (job.run_folder() / "spool.jsonl").symlink_to("/dev/full")
    job.target("print(1)")
    assert job.run()["outcome"] == "SUCCEEDED"
    assert service.text() == "1\n"
    assert "Traceback" not in job.log()


def test_a_disk_without_room_at_the_start_loses_the_run_and_not_the_job(small_job: Job, small_disk: Path) -> None:
    environment = small_job.environment()
    small_job.environment = lambda: fill(small_disk) and environment  # the last step before the runner begins
    small_job.target("print(1)").start()
    assert small_job.process.wait(scaled(60)) == DISK_FULL
    assert not small_job.run_folder().joinpath("result.json").exists()


#: Prints, waits for the file `filled`, prints more, makes the file `printed`, and ends when there is the file `end`.
PRINTS_UNTIL_TOLD = """
import os, time
print(0, flush=True)
while not os.path.exists("filled"): time.sleep(0.01)
for n in range(20): print(n, "x" * 2000, flush=True)
print("full", flush=True)
open("printed", "w").close()
while not os.path.exists("end"): time.sleep(0.01)
print("end")
"""


@pytest.fixture
def small_disk(tmp_path: Path):
    """Return a file system of 300 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("this user may not mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def small_job(small_disk: Path, service: Service):
    """Return a job on the small disk, with its working folder elsewhere."""
    job = Job(small_disk / "job-1", service)
    job.cwd = small_disk.parent / "home"
    yield job
    job.clean_up()


def fill(disk: Path) -> Path:
    """Take all room of the disk, as somebody else's checkpoint does; return the file that takes it."""
    file = disk / "filler"
    with file.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(b"x" * 1024)
    return file


def test_job_on_a_full_disk_goes_on_and_its_output_is_complete(small_job: Job, small_disk: Path) -> None:
    job = small_job.target(PRINTS_UNTIL_TOLD)
    job.start()
    eventually(lambda: "0\n" in job.service.text())
    filler = fill(small_disk)
    (job.cwd / "filled").touch()
    eventually(lambda: (job.cwd / "printed").exists())
    filler.unlink()
    eventually(lambda: "full\n" in job.service.text())
    (job.cwd / "end").touch()
    result = job.finish()
    assert (result["outcome"], result["sentence"]) == ("SUCCEEDED", "")
    assert job.service.text().endswith("end\n")
    pieces = job.service.pieces()
    assert [piece["seq"] for piece in pieces] == list(range(1, len(pieces) + 1))
    assert "".join(output["text"] for output in job.notebook()["cells"][0]["outputs"]) == job.service.text()
    assert "Traceback" not in job.log()


def test_run_after_one_that_was_killed_on_a_full_disk_loses_no_output(small_job: Job, small_disk: Path) -> None:
    """The service is down when the second run begins: only the files of this machine tell which numbers were used."""
    job = small_job.target(PRINTS_UNTIL_TOLD)
    job.start()
    eventually(lambda: "0\n" in job.service.text())
    filler = fill(small_disk)
    (job.cwd / "filled").touch()
    eventually(lambda: (job.cwd / "printed").exists())
    beats = len(job.service.beats())
    eventually(lambda: len(job.service.beats()) > beats + 1)  # the runner has had the time to send what it has
    job.process.kill()
    job.process.wait()
    eventually(lambda: not job.processes())
    job.service.kill()
    filler.unlink()
    (job.cwd / "end").touch()
    job.start(run=2)
    spool = job.run_folder(2) / "spool.jsonl"
    eventually(lambda: any(piece["op"] == "append" for piece in whole_lines(spool)))
    job.service.start()
    assert job.finish(run=2)["outcome"] == "SUCCEEDED"
    assert [piece for piece in job.service.pieces() if piece["run"] == 2] == whole_lines(spool)


def test_run_after_one_that_sent_more_than_it_wrote_uses_no_number_again(small_job: Job, small_disk: Path) -> None:
    """The service is down when the second run begins: only the start of the run tells which numbers were used."""
    until_stopped = PRINTS_UNTIL_TOLD.replace("import os,", "import jupyter_gq, os,").replace(
        'not os.path.exists("end")', 'not (os.path.exists("end") or jupyter_gq.should_stop())'
    )
    job = small_job.target(until_stopped)
    job.start()
    eventually(lambda: "0\n" in job.service.text())
    filler = fill(small_disk)
    (job.cwd / "filled").touch()
    eventually(lambda: (job.cwd / "printed").exists())
    job.stop()
    job.finish()
    sent, written = job.service.pieces(), whole_lines(job.run_folder() / "spool.jsonl")
    assert sent[-1]["seq"] > written[-1]["seq"]
    job.service.kill()
    filler.unlink()
    (job.cwd / "end").touch()
    job.start(run=2, after=sent[-1]["seq"])
    spool = job.run_folder(2) / "spool.jsonl"
    eventually(lambda: any(piece["op"] == "append" for piece in whole_lines(spool)))
    job.service.start()
    assert job.finish(run=2)["outcome"] == "SUCCEEDED"
    assert [piece for piece in job.service.pieces() if piece["run"] == 2] == whole_lines(spool)


def test_job_that_ends_on_a_full_disk_says_so(small_job: Job, small_disk: Path) -> None:
    job = small_job.target(PRINTS_UNTIL_TOLD)
    job.start()
    eventually(lambda: "0\n" in job.service.text())
    fill(small_disk)
    job.service.kill()
    (job.cwd / "filled").touch()
    (job.cwd / "end").touch()
    result = job.finish()
    assert result["outcome"] == "SUCCEEDED"
    assert "was full at the end, so some of its outputs may be missing" in result["sentence"]


def test_job_on_a_full_disk_can_be_stopped(small_job: Job, small_disk: Path) -> None:
    job = small_job.target(
        "import jupyter_gq, time\nprint('running', flush=True)\n"
        "while not jupyter_gq.should_stop():\n    time.sleep(0.02)"
    )
    job.start()
    eventually(lambda: "running" in job.service.text())
    fill(small_disk)
    job.stop()
    assert job.finish()["outcome"] == "PAUSED"


def test_kernel_ends_with_a_killed_runner(job: Job, service: Service) -> None:
    job.target("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(100)")
    job.start()
    eventually(lambda: service.text())
    job.process.kill()
    job.process.wait()
    eventually(lambda: not job.processes())


def test_nothing_that_the_cell_started_outlives_the_run(job: Job) -> None:
    job.target("import subprocess\np = subprocess.Popen(['sleep', '100'])")
    assert job.run()["outcome"] == "SUCCEEDED"
    assert job.processes() == []


def test_cell_that_leaves_the_kernel_at_the_very_end(job: Job, service: Service) -> None:
    job.target("print('done')\nexit()")
    assert job.run()["outcome"] == "SUCCEEDED"
    assert service.text() == "done\n"
