"""What holds for every tier."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.kept_logs import KeepsLogs
from tests.process_state import kept_process_state

# Deadline and health check judge the machine: an example takes longer where others work too. Each run has the same
# examples; soaks have others.
settings.register_profile("any run", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("any run")

#: The name of this process's temporary folder in the state of pytest.
_OWN_FOLDER = pytest.StashKey[str]()


@pytest.fixture(autouse=True)
def _process_state():
    """Keep what a test, or the code that it calls, changes in this process from the tests that come after it."""
    with kept_process_state():
        yield


def pytest_configure(config):
    config.pluginmanager.register(KeepsLogs(config.rootpath), "kept-logs")
    _take_own_temporary_folder(config)


def pytest_unconfigure(config):
    shutil.rmtree(config.stash[_OWN_FOLDER], ignore_errors=True)


def _take_own_temporary_folder(config):
    """Make a temporary folder for this process and its children, for all users as `/tmp` is.

    Simulated devices find the memory of programs there: two workers, whose devices have the same names, would else see
    each other's programs. The folders of `tmp_path` stay where they are, since longer names leave sockets no room.
    """
    shared = os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix="gq-", dir=shared)
    Path(folder).chmod(0o1777)
    config.stash[_OWN_FOLDER] = folder
    os.environ["TMPDIR"] = tempfile.tempdir = folder
