"""`jupyter-gq check-config` says one sentence about a file of any content, and never a traceback."""

import subprocess
import sys

import pytest

from jupyter_gq.app import main

NESTED = 200_000


def check(file, capsys):
    code = main(["check-config", str(file)])
    told = capsys.readouterr()
    assert "Traceback" not in told.out + told.err
    return code, told.out.replace(str(file), "FILE")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x7fELF\x00\xff", "FILE: this is not text in UTF-8"),
        (b"[" * NESTED, "FILE, line 1: this is not valid Python (too many nested parentheses)"),
        (
            b"x = " + b"[" * NESTED + b"]" * NESTED,
            "FILE, line 1: this is not valid Python (too many nested parentheses)",
        ),
        (b"x = " + b"-" * NESTED + b"1", "FILE: Python cannot compile this file (MemoryError). An expression in it is"),
        (b"x = 1" + b"+1" * NESTED, "FILE: Python cannot compile this file (RecursionError: "),
        (b"c" + b".a" * NESTED + b" = 1", "FILE: Python cannot compile this file (RecursionError: "),
        (b"import sys\nsys.exit(0)", "FILE, line 2: SystemExit: 0. Mend that line."),
        (b"raise KeyboardInterrupt", "FILE, line 1: KeyboardInterrupt. Mend that line."),
        (b"# a token is asked for\nx = input('Token? ')", "FILE, line 2: EOFError: EOF when reading a line. Mend that"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_with_a_sentence(tmp_path, capsys, content, told):
    file = tmp_path / "jupyterhub_config.py"
    file.write_bytes(content)
    code, text = check(file, capsys)
    assert (code, text.count("cannot be used")) == (1, 1)
    assert told in text
    assert len(text) < 500


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path, capsys):
    code, text = check(tmp_path, capsys)
    assert (code, "this is a folder and no regular file" in text) == (1, True)


def test_an_empty_file_can_be_used_and_is_doubted(tmp_path, capsys):
    file = tmp_path / "jupyterhub_config.py"
    file.touch()
    code, text = check(file, capsys)
    assert (code, "the file sets nothing of jupyter-gq" in text) == (0, True)


@pytest.mark.parametrize("code", ["import sys\nsys.stdin.read()", "import subprocess\nsubprocess.run('cat')"])
def test_a_file_that_asks_a_person_does_not_wait_for_an_answer(tmp_path, code):
    """Where standard input stays open, as in a terminal or a pipe; a program of the file does not wait either."""
    file = tmp_path / "jupyterhub_config.py"
    file.write_text(f"{code}\nc.FixedQuota.default = 1\n")
    command = [sys.executable, "-m", "jupyter_gq.app", "check-config", str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as checking:
        assert b"can be used" in checking.stdout.read()
        assert checking.wait() == 0


def test_only_an_error_of_the_compiler_is_told_as_one(tmp_path, monkeypatch, capsys):
    """Python may have no memory at another place, before any line of the file is executed."""

    def find_without_memory(*_arguments):
        raise MemoryError

    monkeypatch.setattr("traitlets.config.loader.filefind", find_without_memory)
    code, text = check(tmp_path / "jupyterhub_config.py", capsys)
    assert code == 1
    assert "FILE: there was not enough memory to read or execute this file (MemoryError)." in text
    assert "compile" not in text


def test_a_file_that_closes_standard_output_is_told_about(tmp_path):
    file = tmp_path / "jupyterhub_config.py"
    file.write_text("import sys\nsys.stdout.close()\n")
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_gq.app", "check-config", str(file)], capture_output=True, text=True
    )
    told = "jupyter-gq: the output cannot be written: the code of a file has closed standard output.\n"
    assert (done.returncode, done.stderr) == (1, told)


@pytest.mark.parametrize(
    "trait", ["TrainingQueues.max_output_mib", "TrainingQueues.max_user_disk", "IdlePolicy.suspended_memory"]
)
@pytest.mark.parametrize("value", ["1e308", "10**400", "float('inf')", "float('nan')"])
def test_a_number_that_no_machine_can_count_is_refused_with_its_line(tmp_path, capsys, trait, value):
    file = tmp_path / "jupyterhub_config.py"
    file.write_text(f"# a limit\nc.{trait} = {value}\n")
    code, text = check(file, capsys)
    assert code == 1
    assert "FILE, line 2: c." in text


@pytest.mark.parametrize(
    "setting",
    [
        "Notifications.phases = True",
        "LocalBackend.cpus = 'many'",
        "SchedulerService.log_style = 'x'",
        "SchedulerService.allow_empty = 1",
        "SimulatedDevices.devices = 4",
        "SimulatedDevices.needed = 'always'",
        "LocalBackend.env_keep = 1",
        "Notifications.mail_password = 1",
    ],
)
def test_what_a_part_of_the_service_refuses_is_told_with_its_line(tmp_path, capsys, setting):
    file = tmp_path / "jupyterhub_config.py"
    file.write_text(f"# settings that are no policy\nc.{setting}\n")
    code, text = check(file, capsys)
    assert (code, text.count("FILE, line 2: ")) == (1, 1), text
