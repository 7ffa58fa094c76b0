"""A machine whose driver cannot suspend is told in a sentence, and a restore elsewhere names every device once."""

import ctypes
import os
import platform
import re
from functools import partial

import pytest

from jupyter_gq.devices.checkpointer import CheckpointError, CheckpointProblem
from jupyter_gq.devices.linux.processes import read_process
from jupyter_gq.devices.nvidia.cuda_checkpointer import CudaCheckpointer, complete_moves
from jupyter_gq.devices.nvidia.cuda_library import FUNCTIONS, CudaLibrary, LockArguments, Pair, RestoreArguments


def answer(code, *arguments):
    """Return the code, as a function of the library does."""
    return code


class FakeLibrary:
    """A libcuda with these functions; each returns the number that `codes` has for it, or 0."""

    def __init__(self, functions=FUNCTIONS, version=13000, **codes):
        for name in (*functions, "cuInit"):
            setattr(self, name, partial(answer, codes.get(name, 0)))
        self.version = version

    def cuDriverGetVersion(self, version):
        version._obj.value = self.version
        return 0

    def cuGetErrorName(self, code, name):
        name._obj.value = {100: b"CUDA_ERROR_NO_DEVICE"}.get(code)
        return 0


def checkpointer(load):
    return CudaCheckpointer(devices=lambda: [], library=CudaLibrary(load))


def missing():
    raise OSError("libcuda.so.1: cannot open shared object file")


@pytest.fixture
def x86(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")


@pytest.mark.usefixtures("x86")
@pytest.mark.parametrize(
    ("load", "told"),
    [
        (missing, "cannot be loaded"),
        (lambda: FakeLibrary(FUNCTIONS[:-1]), "install version 570 or newer"),
        (lambda: FakeLibrary(cuInit=100), "CUDA_ERROR_NO_DEVICE (100)"),
        (lambda: FakeLibrary(cuInit=999), "an unknown error (999)"),
    ],
    ids=["no library", "old driver", "no device", "unknown error"],
)
def test_machine_that_cannot_suspend_says_why(load, told):
    found = checkpointer(load)
    support = found.support()
    assert not support.available
    assert told in support.detail
    assert support.detail.endswith((".", "?"))
    own = read_process(os.getpid()).id
    assert not found.uses_device(own)
    with pytest.raises(CheckpointError):
        found.state(own)


def test_other_processors_are_not_supported(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "x86-64" in checkpointer(FakeLibrary).support().detail


@pytest.mark.usefixtures("x86")
def test_driver_is_initialised_once_however_often_it_is_asked():
    """Each initialisation takes seconds on a GPU without persistence mode."""
    library, calls = FakeLibrary(), []
    library.cuInit = lambda flags: calls.append(flags) or 0
    asked = checkpointer(lambda: library)
    for _ in range(3):
        assert asked.support().available
        asked.uses_device(read_process(os.getpid()).id)
    assert calls == [0]


@pytest.mark.usefixtures("x86")
def test_driver_that_comes_later_is_found():
    libraries = [missing, FakeLibrary]
    found = checkpointer(lambda: libraries.pop(0)())
    assert not found.support().available
    assert found.support().available


@pytest.mark.usefixtures("x86")
@pytest.mark.parametrize(("version", "can_move"), [(12080, False), (12090, False), (13000, True)])
def test_moves_need_a_newer_driver(version, can_move):
    assert checkpointer(lambda: FakeLibrary(version=version)).support().can_move is can_move


@pytest.mark.usefixtures("x86")
@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (600, CheckpointProblem.BUSY),
        (2, CheckpointProblem.OUT_OF_MEMORY),
        (304, CheckpointProblem.LOST),
        (401, CheckpointProblem.WRONG_STATE),
        (800, CheckpointProblem.NO_PERMISSION),
        (801, CheckpointProblem.UNSUPPORTED),
        (999, CheckpointProblem.BROKEN),
    ],
)
def test_error_of_a_restore_has_a_kind(code, problem):
    found = checkpointer(lambda: FakeLibrary(cuCheckpointProcessRestore=code))
    with pytest.raises(CheckpointError, match=f"({code})") as raised:
        found.restore(read_process(os.getpid()).id, {})
    assert raised.value.problem is problem


@pytest.mark.usefixtures("x86")
def test_program_uses_no_device_only_if_the_driver_says_so():
    own = read_process(os.getpid()).id
    assert not checkpointer(lambda: FakeLibrary(cuCheckpointProcessGetRestoreThreadId=1)).uses_device(own)
    with pytest.raises(CheckpointError, match=r"\(800\)") as raised:
        checkpointer(lambda: FakeLibrary(cuCheckpointProcessGetRestoreThreadId=800)).uses_device(own)
    assert raised.value.problem is CheckpointProblem.NO_PERMISSION


@pytest.mark.usefixtures("x86")
def test_error_of_the_operating_system_is_a_loss_only_in_a_restore():
    found = checkpointer(lambda: FakeLibrary(cuCheckpointProcessLock=304))
    with pytest.raises(CheckpointError) as raised:
        found.lock(read_process(os.getpid()).id, 1)
    assert raised.value.problem is CheckpointProblem.BROKEN


@pytest.mark.parametrize(
    ("moves", "complete"),
    [
        ({}, {}),
        ({"a": "a"}, {}),
        ({"a": "b"}, {"a": "b", "b": "a", "c": "c"}),
        ({"a": "b", "b": "a"}, {"a": "b", "b": "a", "c": "c"}),
        ({"a": "b", "b": "c"}, {"a": "b", "b": "c", "c": "a"}),
        ({"a": "a", "b": "c"}, {"a": "a", "b": "c", "c": "b"}),
        ({"a": "x"}, {"a": "x", "b": "b", "c": "c", "x": "a"}),
    ],
)
def test_map_of_a_restore_names_every_device_once(moves, complete):
    assert complete_moves(moves, ["a", "b", "c"]) == complete


@pytest.mark.usefixtures("x86")
@pytest.mark.parametrize(
    ("number", "told"), [(4, "still saving"), (5, "still restoring"), (6, "a state (6) that is not known")]
)
def test_state_of_a_newer_driver_is_said_in_words(number, told):
    library = FakeLibrary()

    def tell_state(pid, state):
        state._obj.value = number
        return 0

    library.cuCheckpointProcessGetState = tell_state
    with pytest.raises(CheckpointError, match=re.escape(told)) as raised:
        checkpointer(lambda: library).state(read_process(os.getpid()).id)
    assert raised.value.problem is CheckpointProblem.BROKEN


@pytest.mark.usefixtures("x86")
@pytest.mark.parametrize(("timeout", "sent"), [(0.0, 1), (0.0002, 1), (8.0, 8000)])
def test_lock_never_waits_for_ever(timeout, sent):
    """The driver takes a time-out of 0 ms as none at all."""
    library, found = FakeLibrary(), []

    def note(pid, arguments):
        found.append(arguments._obj.timeout_ms)
        return 0

    library.cuCheckpointProcessLock = note
    checkpointer(lambda: library).lock(read_process(os.getpid()).id, timeout)
    assert found == [sent]


def test_arguments_have_the_layout_of_the_drivers_header():
    """Sizes and offsets of `CUcheckpointLockArgs`, `CUcheckpointRestoreArgs` and `CUcheckpointGpuPair` in CUDA 13.5."""
    assert (ctypes.sizeof(LockArguments), ctypes.sizeof(RestoreArguments), ctypes.sizeof(Pair)) == (64, 64, 32)
    offsets = [getattr(RestoreArguments, name).offset for name in ("pairs", "count", "reserved")]
    assert (LockArguments.timeout_ms.offset, Pair.new.offset, *offsets) == (0, 16, 0, 8, 12)
