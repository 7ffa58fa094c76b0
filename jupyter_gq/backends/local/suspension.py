"""The suspension of the runs of jobs on this machine; see `backends.share_suspension` for the guarantees.

Rules
-----
- Whole runs: only the share of a run with one task on one device is known, so no other run is ever suspended.
- Place first: the devices on which a run is resumed are in the ledger before it is resumed, so that a service that
  opens the ledger later knows them.
- No device meanwhile: while a run is suspended, its observation names no place.

See docs/decisions/0164-suspend-a-paused-job-instead-of-ending-it.md.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from jupyter_gq.backends.control_groups import freeze_group
from jupyter_gq.backends.processes import ProcessTable
from jupyter_gq.backends.protocol import Observation, Phase
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.suspension.run_shares import RunShares, list_devices
from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.devices.suspension.suspender import SuspensionTarget
from jupyter_gq.domain.workload import RunKey

from .ledger import Ledger, Run
from .members import Members


class RunSuspension:
    """The port `capabilities.suspension` of the local backend."""

    def __init__(
        self, shares: RunShares | None, ledger: Ledger, members: Members, record: Callable[[Run], None]
    ) -> None:
        """Know the shares of all runs of the ledger; `record` stores a changed run in the ledger.

        With `shares` None no run is ever suspended, and the object is not to be used as a port.
        """
        self._shares, self._ledger, self._members, self._record = shares, ledger, members, record
        for run in ledger.all():
            self.add(run)

    @property
    def can_move(self) -> bool:
        """Whether a run can be resumed on another device of the same model; False until that is known."""
        return self._shares is not None and self._shares.can_move

    @property
    def trouble(self) -> str:
        """The trouble with the journal of suspensions, as a sentence for administrators; "" if there is none."""
        return "" if self._shares is None else self._shares.trouble

    def describe_refusal(self, workload: str, run: int) -> str:
        """Return why the run can never be suspended, as a sentence; "" if an attempt is worthwhile."""
        return "" if self._shares is None else self._shares.describe_refusal(workload, run)

    def suspend(self, workload: str, run: int) -> None:
        """Begin to suspend a run whose share is IN_USE; do nothing for a run with several tasks or devices."""
        if self._shares is not None:
            self._shares.suspend(workload, run)

    def resume(self, workload: str, run: int, devices: Sequence[str] = ()) -> None:
        """Begin to resume a suspended run on these devices, or let a suspension under way be undone."""
        found = self._ledger.get(workload, run)
        if found is not None and devices and list_devices(found.placement) != tuple(devices):
            self._record(replace(found, placement=(replace(found.placement[0], devices=tuple(devices)),)))
        if self._shares is not None:
            self._shares.resume(workload, run, devices)

    # --- for the backend

    def recover(self) -> None:
        """Let the suspender finish or undo what a crash interrupted, once; does nothing after that."""
        if self._shares is not None:
            self._shares.recover()

    def add(self, run: Run) -> None:
        """Know the share of a launched run, if it has one task on one device."""
        devices = list_devices(run.placement)
        if self._shares is not None and len(run.tasks) == 1 and run.elastic is None and len(devices) == 1:
            key = run.key
            target = SuspensionTarget(
                name=run.job,
                devices=devices,
                find_processes=lambda: self._find_processes(key),
                milli=run.milli,
            )
            self._shares.add_job(key, target, partial(freeze_group, run.group))

    def remove(self, key: RunKey) -> None:
        """Forget the share of a run that has ended."""
        if self._shares is not None:
            self._shares.remove(*key)

    def describe_loss(self, key: RunKey) -> str:
        """Return why a run cannot go on, as a sentence; "" if it can.

        Either the GPU state is lost, or a process of it ended while it was suspended.
        """
        return "" if self._shares is None else self._shares.describe_loss(*key)

    def stands_still(self, key: RunKey) -> bool:
        """Return whether a run is suspended or is being resumed, so that it cannot end by itself.

        A suspension under way is undone.
        """
        state = None if self._shares is None else self._shares.state(*key)
        if self._shares is None or state is None or state.phase is SharePhase.IN_USE:
            return False
        if state.phase is SharePhase.SUSPENDING:
            self._shares.resume(*key)
            return False
        return True

    def may_stand_still(self, key: RunKey) -> bool:
        """Return whether a run is suspended or moving, or may be, because its recovery is unfinished."""
        if self._shares is None or not self._shares.manages(*key):
            return False
        state = self._shares.state(*key)
        return state is None or state.phase is not SharePhase.IN_USE

    def watch(self, seen: Observation, table: ProcessTable) -> Observation:
        """Stop what goes on of a suspended run, and return the observation of a live run with its share.

        The run is STARTING while the share is not on its devices. `table` has the processes of the observation.
        """
        key = (seen.workload, seen.run)
        if self._shares is None:
            return seen
        self._shares.freeze_again(*key, [each.id for pid in seen.pids if (each := table.process(pid)) is not None])
        share = self._shares.state(*key)
        seen = replace(seen, share=share, sentence=seen.sentence or self._shares.describe_trouble(*key))
        if share is None:
            return seen
        if share.phase is SharePhase.RESUMING:
            return replace(seen, phase=Phase.STARTING)
        if share.phase is SharePhase.SUSPENDED:
            return replace(seen, phase=Phase.STARTING, placement=())
        return seen

    def _find_processes(self, key: RunKey) -> Collection[ProcessId]:
        """Return all processes of a run, that of its task first; may be called in a thread."""
        run = self._ledger.get(*key)
        if run is None:
            return ()
        table = ProcessTable.read()
        leader = run.tasks[0].pid if run.tasks[0] is not None else 0
        found = [each.id for pid in self._members.find(run, table) if (each := table.process(pid)) is not None]
        return tuple(sorted(found, key=lambda each: (each.pid != leader, each.pid)))
