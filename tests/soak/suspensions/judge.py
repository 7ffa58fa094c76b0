"""The judgement of the machine while nothing is going on: each rule is a function of what the driver and disk show.

Rules
-----
- Every entry of the journal is at rest.
- No program is locked, and none has lost its state or died unless it was killed.
- Each byte is counted once: on the device by the probe, or in host memory by the journal.
- The shares are as they were told to be, and nobody is told of trouble.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from jupyter_gq.devices.checkpointer import CheckpointState
from jupyter_gq.devices.suspension.journal import AT_REST, JournalEntry

from .machine import Program


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What the driver, the disk and the service show at one moment."""

    #: State of each program that was not killed, by the name of its share; None = it has ended.
    programs: Mapping[str, Sequence[tuple[Program, CheckpointState | None]]]
    #: Entries of the journal on the disk.
    journal: Sequence[JournalEntry]
    #: MiB of each device that are not free, in the order of the devices.
    used: Mapping[str, int]
    #: Shares that were told to be away from the device.
    away: Collection[str]
    #: Trouble that the owners of shares are told, by share; "" = none.
    troubles: Mapping[str, str]


def judge(shown: Shown) -> list[str]:
    """Return a sentence for each rule that is broken."""
    return [
        *_judge_journal(shown),
        *_judge_programs(shown),
        *_judge_bytes(shown),
        *(f"the owner of {name} is told: {text}" for name, text in shown.troubles.items() if text),
    ]


def _judge_journal(shown: Shown) -> list[str]:
    return [f"{each.name} is not at rest: {each.step.value}" for each in shown.journal if each.step not in AT_REST]


def _judge_programs(shown: Shown) -> list[str]:
    faults = []
    for name, programs in shown.programs.items():
        wanted = CheckpointState.CHECKPOINTED if name in shown.away else CheckpointState.RUNNING
        for program, state in programs:
            if state is None:
                faults.append(f"program {program.id.pid} of {name} has died, and nobody killed it")
            elif state is not wanted:
                faults.append(f"program {program.id.pid} of {name} is {state.value} instead of {wanted.value}")
    return faults


def _judge_bytes(shown: Shown) -> list[str]:
    """Compare what programs hold with what the probe counts, and what is suspended with what the journal counts."""
    states = [each for programs in shown.programs.values() for each in programs]
    devices = list(shown.used)
    faults = []
    for index, device in enumerate(devices):
        held = sum(
            program.mib
            for program, state in states
            if index in program.on and state in (CheckpointState.RUNNING, CheckpointState.LOCKED)
        )
        if shown.used[device] != held:
            faults.append(f"the probe counts {shown.used[device]} MiB on {device}, and programs hold {held} MiB there")
    suspended = {
        program.id: {devices[index]: program.mib for index in program.on}
        for program, state in states
        if state is CheckpointState.CHECKPOINTED
    }
    counted: list[tuple[object, object]] = sorted(
        (member.id, dict(member.memory)) for entry in shown.journal for member in entry.members
    )
    if counted != sorted(suspended.items()):
        faults.append(f"the journal counts {counted} as suspended, and the driver {sorted(suspended.items())}")
    return faults
