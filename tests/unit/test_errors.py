"""The exception classes of the package: one root, one fault each, and names that mean one class."""

import fcntl
import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Iterator

import pytest
import sqlalchemy

import jupyter_gq
from jupyter_gq.backends.local.user_access import NotAskedError
from jupyter_gq.client.files.target_folder import CopyRefused
from jupyter_gq.client.problems import PlainProblem, ServiceError
from jupyter_gq.commands.refusal import CommandRefused
from jupyter_gq.controller.settings.reading import Abandoned
from jupyter_gq.controller.settings.traits import SettingsError
from jupyter_gq.demo.processes import DemoError
from jupyter_gq.devices.nvidia.nvml_library import NvmlError
from jupyter_gq.devices.suspension.journal_lock import JournalLock
from jupyter_gq.domain.errors import (
    AdminError,
    BackendError,
    DamagedDatabase,
    DefectError,
    HttpRefusal,
    JupyterGQError,
    MachineError,
    UserError,
)
from jupyter_gq.domain.mentions import mention
from jupyter_gq.notebook.carrying.loading import Unloadable
from jupyter_gq.notebook.carrying.pickler import OpenFile, SharedVariable
from jupyter_gq.notebook.carrying.save import TooManyBytes
from jupyter_gq.notebook.handle import JobFailed
from jupyter_gq.notebook.results import ResultError
from jupyter_gq.notebook.server import JobError
from jupyter_gq.notebook.share_wait import GPUWaitTimeout
from jupyter_gq.runner.pod.sigterm import StoppedBeforeStart
from jupyter_gq.service_waits import Ended
from jupyter_gq.store.failures import translate_error
from jupyter_gq.store.folder_lock import lock_folder

FAULTS = (UserError, AdminError, MachineError, DefectError, HttpRefusal)
#: No errors of ours: three signals to end, two of which no `except Exception` may catch, the type of a class of
#: `pynvml`, and the errors in the kernels of users, whose Python may be too old for our other modules.
IN_KERNELS = {ResultError, JobError, JobFailed, GPUWaitTimeout, OpenFile, SharedVariable, TooManyBytes, Unloadable}
OTHERS = {Abandoned, Ended, StoppedBeforeStart, NvmlError, *IN_KERNELS}


def _classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(jupyter_gq.__path__, "jupyter_gq."):
        if ".migrations" in module.name or module.name.endswith(("__main__", "kernel_startup")):
            continue  # these run when they are imported
        for found in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(found) and found.__module__ == module.name:
                yield found


def _errors() -> list[type[BaseException]]:
    raised = [each for each in _classes() if issubclass(each, BaseException) and not each.__name__.startswith("_")]
    return [each for each in raised if each not in OTHERS]


def test_every_error_has_the_one_root_and_says_whose_fault_it_is():
    wrong = {
        each.__qualname__: [fault.__name__ for fault in FAULTS if issubclass(each, fault)]
        for each in _errors()
        if each is not JupyterGQError and sum(issubclass(each, fault) for fault in FAULTS) != 1
    }
    assert wrong == {}


def test_a_name_means_one_error():
    assert [name for name, count in Counter(each.__name__ for each in _errors()).items() if count > 1] == []


def test_refused_state_and_refusal_name_one_class_each_at_most():
    names = Counter(each.__name__ for each in _classes())
    assert {name: names[name] for name in ("Refused", "Refusal", "State")} == {"Refused": 1, "Refusal": 0, "State": 1}


DIRTY = "a\x1b[31m\x07\u202eb\nc\ufdd0"


@pytest.mark.parametrize(
    "error",
    [
        AdminError(DIRTY),
        CommandRefused(DIRTY),
        DamagedDatabase(DIRTY, DIRTY),
        SettingsError("A.b", DIRTY, DIRTY, DIRTY),
        BackendError(DIRTY),
        MachineError(DIRTY),
        NotAskedError(DIRTY),
        DefectError(DIRTY),
        UserError(DIRTY.replace("\ufdd0", "")),
        CopyRefused("not_found", DIRTY.replace("\ufdd0", "")),
        ServiceError(404, PlainProblem(code="not_found", message="\x1b[2Jgone\x07\u202e")),
    ],
)
def test_what_anybody_is_told_moves_no_cursor_and_begins_no_line(error):
    assert str(error).isprintable()


def test_a_user_is_told_who_is_mentioned():
    said = f"{mention('ann', 'ann', 'another user')} holds it.\x07"
    assert str(UserError(said)) == said[:-1]
    assert str(MachineError(said)).isprintable()


def test_a_demo_shows_the_lines_of_a_log_without_their_colours():
    assert str(DemoError("The end:\n  \x1b[31mfailed")) == "The end:\n  failed"


def test_a_lock_file_of_somebody_else_moves_no_cursor(tmp_path):
    (tmp_path / "lock").write_bytes(b"\x1b[2J\x0712")
    with (tmp_path / "lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with (
            pytest.raises(AdminError, match="process 12, works in"),
            lock_folder(tmp_path, timeout=0, sleep=lambda _: None),
        ):
            pass


def test_the_lock_of_a_journal_of_somebody_else_moves_no_cursor(tmp_path):
    (tmp_path / "journal.lock").write_bytes(b"\x1b[2J\x0712")
    with (tmp_path / "journal.lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert JournalLock(tmp_path / "journal").hold().startswith("Another agent, process 12, notes")


def test_words_of_a_database_move_no_cursor():
    refused = sqlalchemy.exc.OperationalError("SELECT 1", {}, Exception(f"no {DIRTY}"))
    assert str(translate_error(refused, "here")).isprintable()
