"""Whatever people do and whenever the service is killed: no second copy, no device given away twice, nothing lost.

A state machine over the real controller and store, a scripted machine, and a clock that the test moves. `kill` cuts the
next step off at a random place (before or after a save, a launch, a stop, a look) and starts the service again.
"""

import asyncio
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.models import JobChange, TicketRequest
from jupyter_gq.domain.errors import Conflict, UserError
from jupyter_gq.domain.states import FINAL, State
from tests.fakes import FakeBackend, ServiceKilled
from tests.property.lives import lives
from tests.unit.controller.world import ADMIN, ANN, BOB, CAROL, World

PEOPLE = {"ann": (ANN, "vision"), "carol": (CAROL, "vision"), "bob": (BOB, "nlp")}
#: More places than the longest step has, so that some steps get through.
MOST_PLACES = 25


class ControllerMachine(RuleBasedStateMachine):
    """Each rule is one thing that somebody does, or that happens to the machine."""

    jobs = Bundle("jobs")
    tickets = Bundle("tickets")

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="gq-machine-"))
        self.world = self.make_world()
        self.runner = asyncio.Runner()
        self.sent: list[str] = []
        self.asked: list[str] = []

    def make_world(self) -> World:
        return World(self.folder)

    def teardown(self):
        try:
            self.everything_comes_to_its_end()
        finally:
            self.runner.close()
            self.world.close()
            shutil.rmtree(self.folder)

    # --- what people do

    @rule(target=jobs, who=st.sampled_from(sorted(PEOPLE)), gpus=st.sampled_from(["0", "0.25", "0.5", "1"]))
    def send(self, who, gpus):
        caller, queue = PEOPLE[who]
        return self._sent(caller, queue, gpus, 1)

    @rule(target=jobs, who=st.sampled_from(sorted(PEOPLE)), tasks=st.integers(2, 4))
    def send_a_gang(self, who, tasks):
        caller, queue = PEOPLE[who]
        return self._sent(caller, queue, "0.25", tasks)

    @rule(job=jobs)
    def cancel(self, job):
        try:
            self.world.controller.jobs.cancel(ADMIN, job)
        except Conflict:
            assert self._record(job).workload.state in FINAL

    @rule(job=jobs, held=st.booleans())
    def hold_or_release(self, job, held):
        try:
            self.world.controller.job_changes.change(ADMIN, job, JobChange(held=held))
        except Conflict:
            workload = self._record(job).workload
            assert workload.state in FINAL or not workload.stop.requeue

    @rule(target=tickets, who=st.sampled_from(sorted(PEOPLE)), gpus=st.sampled_from(["0", "0.25", "0.5"]))
    def ask(self, who, gpus):
        caller, _ = PEOPLE[who]
        try:
            view, _ = self.world.controller.tickets.open(caller, TicketRequest(server="", gpus=gpus))
        except UserError:
            return multiple()
        self.asked.append(view.id)
        return view.id

    @rule(ticket=tickets)
    def start_the_server(self, ticket):
        try:
            self.world.attach(ADMIN, ticket)
        except Conflict:
            return

    @rule(ticket=consumes(tickets))
    def give_back(self, ticket):
        """The spawner ends the process first, as it always does."""
        pid = self._record(ticket).detail.pid
        if pid is not None:
            self.world.server_dies(pid)
        self.world.controller.tickets.close(ADMIN, ticket)

    @rule(ticket=tickets)
    def give_back_while_it_lives(self, ticket):
        self.world.controller.tickets.close(ADMIN, ticket)

    @rule(ticket=tickets)
    def the_server_dies(self, ticket):
        pid = self._record(ticket).detail.pid
        if pid is not None:
            self.world.server_dies(pid)

    # --- what happens to the machine

    @rule(job=jobs, outcome=st.sampled_from([Outcome.SUCCEEDED, Outcome.FAILED, Outcome.LOST, Outcome.PAUSED]))
    def a_run_ends(self, job, outcome):
        if any(key[0] == job for key in self.world.backend.alive()):
            self.world.backend.end(job, outcome)

    @rule(seconds=st.sampled_from([1, 7, 40, 100]))
    def time_passes(self, seconds):
        self.world.clock.forward(seconds)

    @rule()
    def step(self):
        self.runner.run(self.world.step())

    @rule(places=st.integers(0, MOST_PLACES))
    def kill(self, places):
        self.world.fuse.light(places)
        self.runner.run(self.world.step_or_die())
        self.world.fuse.left = None

    @rule(places=st.integers(0, 1), who=st.sampled_from(sorted(PEOPLE)))
    def kill_while_a_job_is_sent(self, places, who):
        caller, queue = PEOPLE[who]
        self.world.fuse.light(places)
        try:
            self._sent(caller, queue, "0.5", 1)
        except ServiceKilled:
            self.world.restart()
        self.world.fuse.left = None

    # --- what must hold

    @invariant()
    def no_second_copy(self):
        """Safety: a run is started once, and a workload never runs twice at a time."""
        for backend in self._backends():
            assert all(count == 1 for count in backend.copies.values()), backend.copies
            alive = Counter(workload for workload, _ in backend.alive())
            assert all(count == 1 for count in alive.values()), alive

    @invariant()
    def no_device_above_one(self):
        """Safety: what really runs never exceeds a device, whatever the records say."""
        used: Counter[str] = Counter()
        for backend in self._backends():
            places = {(each.workload.id, each.workload.run): each.workload for each in backend.launches}
            for key in backend.alive():
                workload = places[key]
                if self.is_away(key):
                    continue
                for task in backend.runs[key].placement:
                    for device in task.devices:
                        used[device] += workload.request.milli_per_device
        assert all(milli <= 1000 for milli in used.values()), used

    @invariant()
    def a_share_is_held_while_its_process_lives(self):
        """Safety: whatever was given back, replaced or restarted, a living server has its place in the books."""
        for pid in self.world.servers.processes:
            workload = self._record(self.world.attached[pid]).workload
            assert workload.holds or not workload.request.devices, workload

    @invariant()
    def no_held_job_goes_on(self):
        """Safety: whatever was killed meanwhile, a held job waits, or it was told to stop."""
        for record in self.world.sql.unfinished():
            workload = record.workload
            assert workload.hold is None or workload.state is State.PENDING or workload.stop is not None, workload

    @invariant()
    def nothing_lost(self):
        """Safety: every job and ticket that was acknowledged is remembered."""
        for name in [*self.sent, *self.asked]:
            assert self.world.sql.get(name) is not None

    def everything_comes_to_its_end(self):
        """Liveness: undisturbed, every job runs and ends, and nothing waits beside an idle machine."""
        for ticket in self.asked:
            record = self._record(ticket)
            if record.workload.state not in FINAL:
                pid = record.detail.pid
                if pid is not None:
                    self.world.server_dies(pid)
                self.world.controller.tickets.close(ADMIN, ticket)
        for record in self.world.sql.unfinished():
            if record.workload.hold is not None and (record.workload.stop is None or record.workload.stop.requeue):
                self.world.controller.job_changes.change(ADMIN, record.workload.id, JobChange(held=False))
        for _ in range(40 + 8 * len(self.sent)):
            self.runner.run(self.world.step(seconds=7))
            if not self.world.sql.unfinished():
                return
            for key in self.world.backend.alive():
                if not self.is_away(key):
                    self.world.backend.end(key[0])
        left = [(each.workload.id, each.workload.state) for each in self.world.sql.unfinished()]
        raise AssertionError(f"never came to an end: {left}")

    def is_away(self, key) -> bool:
        """Whether the bytes of this run have left the devices."""
        return False

    def _sent(self, caller, queue, gpus, tasks):
        job = self.world.send(caller, queue, gpus, tasks=tasks)
        self.sent.append(job)
        return job

    def _record(self, name):
        return self.world.sql.get(name)

    def _backends(self) -> tuple[FakeBackend, ...]:
        return (self.world.backend, self.world.servers)


TestControllerMachine = lives(ControllerMachine, count=30, steps=30)
