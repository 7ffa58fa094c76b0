"""The limits of a configuration file hold whatever it computes; the process that asks goes on."""

import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from jupyter_gq.controller.settings import trial
from jupyter_gq.controller.settings.config_file import ConfigFileError, ExecutedFiles
from jupyter_gq.controller.settings.early_execution import EarlyExecution
from jupyter_gq.controller.settings.trial import make_trial, no_trial
from tests.patience import eventually, scaled, until

from .policy_files import load

#: MiB of the machine's memory, and what a file may use of it.
MACHINE, LIMIT = 300, 150
#: Programs that Python does not interrupt, or that wait.
ENDLESS = {
    "a number with millions of digits": "c.FixedQuota.default = 9**9**9",
    "a pattern that goes back": "import re; re.match('(a*)*b', 'a' * 5000)",
    "a sum in C": "c.FixedQuota.default = sum(range(10**13))",
    "a number as text": "import sys; sys.set_int_max_str_digits(0); c.FixedQuota.default = str(3**(10**8))",
    "a loop": "while True: pass",
    "a loop that goes on": "while True:\n    try:\n        pass\n    except BaseException:\n        pass",
    "a wait": "import time; time.sleep(10**6)",
    "a program": "import subprocess; subprocess.run(['sleep', '100000'])",
    "a lock": "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "a pipe": "import os; os.read(os.pipe()[0], 1)",
}
GREEDY = {
    "texts": "c.FixedQuota.default = ['x' * 2**28 for _ in range(10**6)]",
    "lists": "c.FixedQuota.users = {name: [name] * 2**24 for name in range(10**6)}",
    "a list that grows": "x = [0]\nwhile True: x += x",
    "numbers": "c.FixedQuota.default = [1 << 2**31 for _ in range(10**6)]",
    "a package": "import numpy; c.FixedQuota.default = [numpy.ones(2**25) for _ in range(10**6)]",
}
DEADLY = {
    "a crash": "import ctypes; ctypes.string_at(0)",
    "a signal": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "an exit of C": "import ctypes; ctypes.CDLL(None)._exit(3)",
}


def refuse(path, monkeypatch, seconds=None):
    """Return what the trial of a file says, with the name of the file in short."""
    monkeypatch.setattr(trial, "SECONDS", scaled(0.5) if seconds is None else seconds)
    executed = ExecutedFiles()
    with pytest.raises(ConfigFileError) as refused:
        make_trial({}, MACHINE)(path, executed)
    assert path in executed
    return str(refused.value).replace(str(path), "FILE")


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(autouse=True)
def _slow_machine(monkeypatch):
    """On a busy machine a trial begins late; without one, a file that computes for ever would hang the test."""
    monkeypatch.setattr(trial, "_STARTED_WITHIN", scaled(60))
    monkeypatch.setattr(trial, "_ENDED_WITHIN", scaled(5))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "jupyterhub_config.py"
    path.write_text("c.FixedQuota.default = 0.25\n")
    return path


@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS)
def test_a_file_that_does_not_come_to_an_end_is_refused_at_its_deadline(path, monkeypatch, code):
    path.write_text(f"# settings\n{code}\n")
    told = refuse(path, monkeypatch)
    assert told.startswith("FILE, line ")
    assert f"has not been executed and checked within {trial.SECONDS:g} s" in told


def test_a_value_that_takes_for_ever_to_be_checked_is_refused_at_the_deadline(path, monkeypatch):
    path.write_text("x = [1]\nfor _ in range(60): x = [x, x]\nc.FixedQuota.users = {'a': x}")
    assert refuse(path, monkeypatch).startswith("FILE: the file has not been executed and checked within")


@pytest.mark.parametrize("code", GREEDY.values(), ids=GREEDY)
def test_a_file_that_takes_too_much_memory_is_refused_with_the_limit(path, monkeypatch, code):
    path.write_text(f"{code}\n")
    told = refuse(path, monkeypatch, seconds=scaled(60))
    assert told.startswith("FILE, line ")
    assert f"uses too much memory. It may use {LIMIT} MiB" in told


def test_memory_that_is_only_reserved_does_not_count(path):
    path.write_text(f"import mmap\nreserved = mmap.mmap(-1, {4 * MACHINE} * 2**20)\n")
    make_trial({}, MACHINE)(path, ExecutedFiles())


@pytest.mark.parametrize("code", DEADLY.values(), ids=DEADLY)
def test_a_file_that_ends_its_process_is_refused(path, monkeypatch, code):
    path.write_text(f"{code}\n")
    assert "the file ends the process that executes it (" in refuse(path, monkeypatch, seconds=scaled(60))


def test_the_line_of_a_file_that_another_one_loads_is_named(path, monkeypatch):
    inner = path.with_name("quotas.py")
    inner.write_text("# quotas\nwhile True: pass\n")
    path.write_text("load_subconfig('quotas.py')\n")
    assert refuse(path, monkeypatch).startswith(f"{inner}, line 2: ")


@pytest.mark.parametrize("code", ["", "def", "raise SystemExit", "c.FixedQuota.default = 'much'", "1 / 0"])
def test_what_has_an_end_is_told_where_it_is_executed(path, code):
    path.write_text(code)
    make_trial({}, MACHINE)(path, ExecutedFiles())


def test_a_file_is_executed_without_a_trial_if_no_process_begins_in_time(path, monkeypatch, caplog):
    monkeypatch.setattr(trial, "_STARTED_WITHIN", 0.0)
    make_trial({}, MACHINE)(path, ExecutedFiles())
    assert "without a trial" in caplog.text


def test_programs_of_the_file_end_with_the_trial(path, monkeypatch):
    told = path.with_name("pid")
    keeps = f"with open({str(told)!r}, 'w') as file: file.write(str(x.pid))"
    path.write_text(f"import subprocess\nx = subprocess.Popen(['sleep', '9999'])\n{keeps}\nx.wait()")
    refuse(path, monkeypatch, seconds=scaled(5))
    until(lambda: not is_alive(int(told.read_text())))


def test_programs_with_a_session_of_their_own_end_with_the_trial_too(path, monkeypatch):
    told = path.with_name("pid")
    keeps = f"with open({str(told)!r}, 'w') as file: file.write(str(x.pid))"
    path.write_text(
        f"import subprocess\nx = subprocess.Popen(['sleep', '9999'], start_new_session=True)\n{keeps}\nx.wait()"
    )
    refuse(path, monkeypatch, seconds=scaled(5))
    until(lambda: not is_alive(int(told.read_text())))


def test_memory_of_programs_counts(path, monkeypatch):
    code = "import time; x = ['x' * 2**20 for _ in range(100)]; time.sleep(9999)"
    path.write_text(
        f"import subprocess, sys\nfor x in [subprocess.Popen([sys.executable, '-c', {code!r}]) for _ in '12']: x.wait()"
    )
    assert "uses too much memory" in refuse(path, monkeypatch, seconds=scaled(60))


def test_the_trial_ends_with_the_process_that_waits_for_it(path):
    told = path.with_name("pid")
    path.write_text(f"import os\nwith open({str(told)!r}, 'w') as file: file.write(str(os.getpid()))\nwhile True: pass")
    asks = "from jupyter_gq.controller.settings.trial import *; import sys; from pathlib import Path"
    tries = f"make_trial({{}}, {MACHINE})(Path(sys.argv[1]), ExecutedFiles())"
    service = subprocess.Popen([sys.executable, "-c", f"{asks}; {tries}", path])
    until(lambda: told.exists() and told.read_text())
    service.kill()
    service.wait()
    until(lambda: not is_alive(int(told.read_text())))


def test_a_full_disk_and_odd_places_of_modules_are_no_fault_of_the_file(path, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    monkeypatch.setattr(sys, "path", [*sys.path, Path("/nowhere")])
    path.write_text("1 / 0")
    make_trial({}, MACHINE)(path, ExecutedFiles())
    path.write_text("while True: pass")
    refuse(path, monkeypatch)


def test_a_file_is_executed_without_a_trial_if_no_process_can_be_started(path, monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    make_trial({}, MACHINE)(path, ExecutedFiles())
    assert "without a trial" in caplog.text


@pytest.mark.asyncio
@pytest.mark.parametrize("code", ["c.FixedQuota.default = 9**9**9", GREEDY["texts"], DEADLY["a crash"]])
async def test_the_service_keeps_its_settings_and_takes_the_mended_file(path, monkeypatch, code):
    policy = load(path, trial=make_trial({}, MACHINE))
    monkeypatch.setattr(trial, "SECONDS", 0.5)
    path.write_text(code)

    async def is_refused():
        await policy.refresh()
        return policy.error

    await eventually(is_refused, lambda: policy.error)
    assert policy.current.default_quota == 250
    monkeypatch.setattr(trial, "SECONDS", scaled(60))
    path.write_text("c.FixedQuota.default = 0.5\n")

    async def is_taken():
        await policy.refresh()
        return policy.error is None

    await eventually(is_taken, lambda: policy.error)
    assert policy.current.default_quota == 500


def test_the_start_executes_a_refused_file_no_second_time(path, monkeypatch):
    stored = load(path).last_good
    monkeypatch.setattr(trial, "SECONDS", 0.5)
    path.write_text("while True: pass\n")
    early = EarlyExecution(path, make_trial({}, MACHINE))
    early.reading.wait_for_end()
    policy = load(path, stored, early, trial=no_trial)
    assert f"{path}, line 1: the file has not been executed" in policy.error
    assert policy.current.default_quota == 250
