"""A machine with a share of two processes, and the service that suspends the share."""

import pytest

from jupyter_gq.devices.checkpointer import CheckpointState
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.suspension.journal import AT_REST, FileJournal
from jupyter_gq.devices.suspension.share_suspender import ShareSuspender
from jupyter_gq.devices.suspension.suspender import SuspensionError, SuspensionTarget
from jupyter_gq.devices.suspension.tree_steps import SuspensionLimits, Waiting
from tests.fakes.driver import FakeDriver

RUNNING, LOCKED, CHECKPOINTED, FAILED = CheckpointState


class World:
    """A machine with a share of two processes, and the service that suspends it."""

    def __init__(self, path, **limits):
        self.path = path
        self.driver = FakeDriver()
        self.driver.start(1, 1000)
        self.driver.start(2, 2000)
        self.limits = SuspensionLimits(host_margin=1000, device_margin=100, **limits)
        self.now = 0.0
        #: Called with each sleep of the suspender.
        self.meanwhile = lambda: None
        self.restart()

    def restart(self):
        """Start a new service on the same machine."""
        self.journal = FileJournal(self.path, boot="boot-1")
        self.suspender = ShareSuspender(
            checkpointer=self.driver,
            probe=self.driver,
            host=self.driver,
            journal=self.journal,
            waiting=Waiting(monotonic=lambda: self.now, sleep=self.sleep),
            limits=self.limits,
        )

    def sleep(self, seconds):
        self.now += seconds
        self.meanwhile()

    def target(self, name="a", pids=(1, 2), devices=("GPU-0",)):
        def find():
            return [ProcessId(pid, pid * 10) for pid in pids if pid in self.driver.processes]

        return SuspensionTarget(name=name, devices=devices, find_processes=find)

    def suspend(self, target=None, is_wanted=lambda: False):
        return self.suspender.suspend(target or self.target(), is_wanted)

    def resume(self, name="a", timeout=0, **arguments):
        return self.suspender.resume(name, timeout=timeout, **arguments)

    def refused(self, problem, call, *arguments, **keywords):
        """Check that a call is refused for this reason and that nothing is left half done; return the sentence."""
        with pytest.raises(SuspensionError) as found:
            call(*arguments, **keywords)
        assert found.value.problem is problem
        assert found.value.sentence.endswith(".")
        assert LOCKED not in self.driver.states().values()
        assert all(entry.step in AT_REST for entry in self.journal.entries())
        return found.value.sentence

    def runs_as_before(self):
        return set(self.driver.states().values()) == {RUNNING} and self.driver.used("GPU-0") == 3000
