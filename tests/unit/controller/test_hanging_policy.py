"""A configuration file that hangs: what is said, what stays in force, and how the next good file is read."""

import math
import os
import sys
import threading

import pytest

from jupyter_gq.controller.settings import reading
from jupyter_gq.controller.settings.config_file import ConfigFileError
from jupyter_gq.controller.settings.early_execution import EarlyExecution
from jupyter_gq.controller.settings.last_good import LastGood
from jupyter_gq.controller.settings.policy_file import MOST_HANGING, PolicyFile
from jupyter_gq.controller.settings.start_sections import StartSections
from tests.fakes import a_node
from tests.patience import eventually, until

from .policy_files import load

pytestmark = pytest.mark.asyncio

GOOD = 'c.FixedQuota.default = "0.25"\n'
#: A line that waits until the test ends.
WAITS = "import sys; sys.modules['gate'].wait()\n"


class Gate:
    """A gate at which configuration files wait."""

    def __init__(self):
        self.arrived = 0
        self._opened = threading.Event()

    def wait(self):
        self.arrived += 1
        self._opened.wait()

    def open(self):
        self._opened.set()


@pytest.fixture
def gate(monkeypatch):
    """The gate at which a file with the line `WAITS` hangs; it opens when the test ends."""
    gate = Gate()
    monkeypatch.setitem(sys.modules, "gate", gate)
    yield gate
    gate.open()
    until(lambda: not hanging_threads())


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "jupyterhub_config.py"
    path.write_text(GOOD)
    return path


async def look_until(condition, policy, monkeypatch):
    """Look at the file, whose time is short for once, until the condition holds; return what the last look returned."""

    async def look():
        nonlocal changed
        changed = await policy.refresh()
        return condition()

    changed = False
    with monkeypatch.context() as short:
        short.setattr(reading, "READ_TIMEOUT", 0.2)
        short.setattr(reading, "MOMENT", 0.05)
        await eventually(look, lambda: policy.error)
    return changed


async def look_at_hang(policy, monkeypatch):
    return await look_until(lambda: "has not been read" in str(policy.error), policy, monkeypatch)


async def load_and_hang(path, text, monkeypatch):
    """Return the policy of the file, which then got a text that hangs."""
    policy = load(path)
    path.write_text(text)
    await look_at_hang(policy, monkeypatch)
    return policy


def hanging_threads():
    return [thread for thread in threading.enumerate() if thread.name == "read settings"]


async def see_begun(policy, gate):
    async def has_begun():
        await policy.refresh()
        return gate.arrived

    await eventually(has_begun, lambda: policy.error)


async def see(policy, quota):
    async def is_in_force():
        before = policy.error
        await policy.refresh()
        is_new = policy.current.default_quota == quota
        assert is_new or policy.error == before, "an error stays until the mended file is in force"
        return is_new and policy.error is None

    await eventually(is_in_force, lambda: policy.error)


async def test_a_file_that_hangs_is_executed_once_at_the_start(path, gate, monkeypatch):
    stored = load(path).last_good
    path.write_text(GOOD.replace("0.25", "0.5") + WAITS)
    early = EarlyExecution(path)
    until(lambda: gate.arrived)
    with monkeypatch.context() as short:
        short.setattr(reading, "READ_TIMEOUT", 0.0)
        assert not early.reading.wait_in_time()
        policy = load(path, stored, early)
    assert f"{path}, line 2: the file has not been read" in policy.error
    assert policy.current.default_quota == 250
    gate.open()
    await see(policy, 500)
    assert gate.arrived == 1


async def test_a_file_that_was_executed_early_is_executed_again_only_if_it_has_changed(path, gate):
    gate.open()
    path.write_text(GOOD + WAITS)
    early = EarlyExecution(path)
    assert load(path, None, early).current.default_quota == 250
    assert gate.arrived == 1
    path.write_text(GOOD.replace("0.25", "0.5") + WAITS)
    assert load(path, None, early).current.default_quota == 500
    assert gate.arrived == 2


async def test_an_error_of_the_early_execution_is_the_error_of_the_file(path):
    path.write_text("raise KeyboardInterrupt('stopped.')\n")
    with pytest.raises(ConfigFileError, match=r"line 1: KeyboardInterrupt: stopped\. Mend that line"):
        load(path, None, EarlyExecution(path))
    path.unlink()
    early = EarlyExecution(path)
    early.reading.wait_in_time()
    path.write_text(GOOD)
    assert load(path, None, early).current.default_quota == 250


async def test_a_file_that_hangs_is_said_and_the_next_good_file_comes_into_force(path, gate, monkeypatch, caplog):
    policy = load(path)
    path.write_text(GOOD + WAITS)
    assert await look_at_hang(policy, monkeypatch)
    assert policy.error is not None
    assert policy.error.startswith(f"{path}, line 2: the file has not been read within 0.2 s")
    assert policy.current.default_quota == 250
    assert len([record for record in caplog.records if "has not been read" in record.getMessage()]) == 1
    path.write_text(GOOD.replace("0.25", "0.75"))
    await see(policy, 750)
    assert policy.error is None


async def test_a_file_that_hangs_is_not_executed_again_while_it_stays_the_same(path, gate, monkeypatch):
    policy = await load_and_hang(path, GOOD + WAITS, monkeypatch)
    assert all(thread.daemon for thread in hanging_threads()), "the process can end"
    for _ in range(5):
        assert not await policy.refresh()
    assert gate.arrived == 1


async def test_a_slow_file_comes_into_force_once_it_is_read(path, gate, monkeypatch):
    policy = await load_and_hang(path, GOOD.replace("0.25", "0.5") + WAITS, monkeypatch)
    assert policy.current.default_quota == 250
    gate.open()
    await see(policy, 500)
    assert policy.error is None


async def test_the_file_in_force_that_comes_back_ends_the_error(path, gate, monkeypatch):
    policy = await load_and_hang(path, GOOD + WAITS, monkeypatch)
    path.write_text(GOOD)
    await eventually(lambda: _is_good(policy), lambda: policy.error)


async def _is_good(policy):
    await policy.refresh()
    return policy.error is None


async def test_only_a_few_versions_of_a_file_hang_and_then_a_restart_is_asked_for(path, gate, monkeypatch):
    policy = load(path)
    for number in range(MOST_HANGING):
        path.write_text(f"{GOOD}# {number}\n{WAITS}")
        await look_until(lambda number=number: gate.arrived > number, policy, monkeypatch)
    await look_until(lambda: "start the service again" in str(policy.error), policy, monkeypatch)
    path.write_text(GOOD)
    for _ in range(3):
        assert not await policy.refresh(), "the sentence stays, and is logged once"
    assert len(hanging_threads()) == MOST_HANGING
    gate.open()
    await see(policy, 250)


async def test_a_file_that_computes_without_end_is_interrupted_once_it_is_mended(path, monkeypatch):
    policy = await load_and_hang(path, "while True:\n    pass\n", monkeypatch)
    assert hanging_threads()
    path.write_text(GOOD.replace("0.25", "0.5"))
    await see(policy, 500)
    until(lambda: not hanging_threads())


async def test_a_trial_of_the_settings_that_is_interrupted_is_no_fault_of_a_value(path, monkeypatch, caplog):
    def check(config):
        while config.FixedQuota.default == "0.5":
            pass

    policy = PolicyFile(path, lambda: (a_node(2),), StartSections(check=check))
    path.write_text(GOOD.replace("0.25", "0.5"))
    await look_at_hang(policy, monkeypatch)
    path.write_text(GOOD.replace("0.25", "0.75"))
    await see(policy, 750)
    until(lambda: not hanging_threads())
    assert "a value cannot be used" not in caplog.text


async def test_decisions_do_not_wait_for_a_file_that_hangs(path, gate, monkeypatch):
    policy = load(path)
    monkeypatch.setattr(reading, "READ_TIMEOUT", math.inf)
    monkeypatch.setattr(reading, "MOMENT", 0.01)
    path.write_text(GOOD.replace("0.25", "0.5") + WAITS)
    await see_begun(policy, gate)
    for _ in range(3):
        assert not await policy.refresh(), "the loop goes on, and nothing is refused yet"
    assert policy.error is None
    gate.open()
    await see(policy, 500)


async def test_a_file_that_still_hangs_is_left_as_soon_as_it_is_replaced(path, gate, monkeypatch):
    monkeypatch.setattr(reading, "MOMENT", 0.01)
    policy = load(path)
    path.write_text(GOOD + WAITS)
    await see_begun(policy, gate)
    path.write_text(GOOD.replace("0.25", "0.75"))
    await see(policy, 750)
    assert gate.arrived == 1


async def test_a_file_that_hangs_at_the_start_leaves_the_last_good_policy_in_force(path, gate, monkeypatch):
    stored = load(path).last_good
    path.write_text(GOOD + WAITS)
    with monkeypatch.context() as short:
        short.setattr(reading, "READ_TIMEOUT", 0.2)
        with pytest.raises(ConfigFileError, match=r"line 2: the file has not been read within"):
            load(path)
        policy = load(path, LastGood.from_document(stored.to_document()))
    assert policy.current.default_quota == 250
    assert "has not been read" in str(policy.error)
    path.write_text(GOOD.replace("0.25", "0.75"))
    await see(policy, 750)
    assert policy.error is None


@pytest.mark.parametrize("kind", ["a pipe", "a folder", "a device"])
async def test_what_is_no_regular_file_is_refused_without_being_opened(path, tmp_path, kind):
    policy = load(path)
    path.unlink()
    make = {
        "a pipe": lambda: os.mkfifo(path),
        "a folder": path.mkdir,
        "a device": lambda: path.symlink_to("/dev/zero"),
    }
    make[kind]()
    await policy.refresh()
    await policy.refresh()
    assert policy.error == f"{path}: this is {kind} and no regular file, so it is not opened. Put a file there."
    with pytest.raises(ConfigFileError, match=kind):
        load(path)


async def test_the_reason_is_that_of_what_is_there_now(path):
    policy = load(path)
    path.write_text("c.FixedQuota.default = 'much'\n")
    for _ in range(2):
        await policy.refresh()
    assert "= 'much'" in policy.error
    make = {
        "this is a folder": path.mkdir,
        "this is a pipe": lambda: os.mkfifo(path),
        "no such file": lambda: path.symlink_to("nowhere"),
        "this is a device": lambda: path.symlink_to("/dev/zero"),
    }
    for reason, put in make.items():
        path.rmdir() if path.is_dir() else path.unlink()
        put()
        for _ in range(2):
            await policy.refresh()
        assert reason in policy.error
    assert policy.current.default_quota == 250


async def test_a_pipe_among_the_files_that_the_file_loads_is_refused(path, tmp_path):
    os.mkfifo(tmp_path / "quotas.py")
    path.write_text(GOOD + "load_subconfig('quotas.py')\n")
    with pytest.raises(ConfigFileError, match=r"quotas\.py: this is a pipe"):
        load(path)


async def test_a_pipe_in_one_of_several_folders_is_refused(path, tmp_path):
    (tmp_path / "parts").mkdir()
    os.mkfifo(tmp_path / "parts" / "quotas.py")
    path.write_text(GOOD + f"load_subconfig('quotas.py', ['{tmp_path}', '{tmp_path}/parts'])\n")
    with pytest.raises(ConfigFileError, match=r"quotas\.py: this is a pipe"):
        load(path)


async def test_a_pipe_that_was_a_file_of_the_policy_is_not_opened(path, tmp_path):
    part = tmp_path / "quotas.py"
    part.write_text("c.FixedQuota.groups = {}\n")
    path.write_text(GOOD + "load_subconfig('quotas.py')\n")
    policy = load(path)
    part.unlink()
    os.mkfifo(part)
    path.write_text(GOOD.replace("0.25", "0.75"))
    await see(policy, 750)
