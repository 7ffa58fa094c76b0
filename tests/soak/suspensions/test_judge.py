"""The judge of the soak of suspensions finds each fault in a world that has it."""

import pytest

from jupyter_gq.devices.checkpointer import CheckpointState
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.suspension.journal import JournalEntry, Member, Step

from .judge import Shown, judge
from .machine import Program

RUNNING, LOCKED, CHECKPOINTED, FAILED = CheckpointState
HERE = Program(id=ProcessId(1, 10), mib=8000, number=0)
AWAY = Program(id=ProcessId(2, 20), mib=5000, number=0, on=(0, 1))


def an_entry(step=Step.SUSPENDED, mib=5000):
    return JournalEntry(name="away", step=step, members=(Member(id=AWAY.id, memory={"GPU-0": 5000, "GPU-1": mib}),))


def shown(here=RUNNING, away=CHECKPOINTED, journal=None, used=8000, other=0, trouble=""):
    return Shown(
        programs={"here": [(HERE, here)], "away": [(AWAY, away)]},
        journal=[an_entry()] if journal is None else journal,
        used={"GPU-0": used, "GPU-1": other},
        away={"away"},
        troubles={"here": trouble, "away": ""},
    )


def test_machine_at_rest_has_no_fault():
    assert judge(shown()) == []


@pytest.mark.parametrize(
    ("world", "fault"),
    [
        (shown(journal=[an_entry(Step.RESTORING)]), "away is not at rest: RESTORING"),
        (shown(here=LOCKED), "program 1 of here is LOCKED instead of RUNNING"),
        (shown(here=FAILED), "program 1 of here is FAILED instead of RUNNING"),
        (shown(here=None, used=0), "program 1 of here has died, and nobody killed it"),
        (shown(away=RUNNING, used=13_000, other=5000), "program 2 of away is RUNNING instead of CHECKPOINTED"),
        (shown(used=13_000), "the probe counts 13000 MiB on GPU-0, and programs hold 8000 MiB there"),
        (shown(other=5000), "the probe counts 5000 MiB on GPU-1, and programs hold 0 MiB there"),
        (shown(journal=[]), "the journal counts [] as suspended"),
        (shown(journal=[an_entry(mib=10_000)]), "the journal counts"),
        (shown(trouble="Restart the kernel."), "the owner of here is told: Restart the kernel."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_fault_is_found(world, fault):
    assert any(sentence.startswith(fault) for sentence in judge(world))
