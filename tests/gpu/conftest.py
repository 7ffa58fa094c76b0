"""One line instead of the tests where there is no NVIDIA GPU."""

import pytest

from jupyter_gq.agent.clock import now
from jupyter_gq.devices.nvidia.nvml import NvmlProbe
from jupyter_gq.devices.probe import ProbeState

STATUS = NvmlProbe(now=now).status()
collect_ignore_glob = [] if STATUS.state is ProbeState.OK else ["test_*.py"]


def pytest_terminal_summary(terminalreporter):
    if collect_ignore_glob:
        terminalreporter.write_line(f"Skipped, since there is no NVIDIA GPU: {STATUS.detail}")


def pytest_sessionfinish(session, exitstatus):
    """Let a run that has nothing to do succeed."""
    if collect_ignore_glob and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK
