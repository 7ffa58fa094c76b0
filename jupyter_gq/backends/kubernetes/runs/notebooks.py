"""Notebooks: their pods are the spawner's. Here their devices are prepared, and their pods watched.

Rules
-----
1. A ticket's pod is known by its label; the spawner puts it there with everything else that `pod` says.
2. A notebook ends through the Hub, never by deleting its pod.
3. A share is held until the pod is gone, whatever the Hub believes.
4. A notebook whose device somebody else may have got is not ended: its owner is told.
"""

import logging

from jupyter_gq.backends.kubernetes.clocks import Clocks
from jupyter_gq.backends.kubernetes.nodes.nodes import Nodes
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.pods.outcome import End, end_of_server, trouble_of
from jupyter_gq.backends.kubernetes.pods.runs import PodIndex, Run, RunKey, slots_in_use
from jupyter_gq.backends.kubernetes.shares.places import Place, Places
from jupyter_gq.backends.protocol import Launch, Observation, Outcome
from jupyter_gq.backends.server_stopper import ServerStopper
from jupyter_gq.client.devices import CHOSEN, DEVICES_GIVEN_VARIABLE, NAMED
from jupyter_gq.client.pods import PodAdditions
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.states import State

from .server_stops import ServerStops

log = logging.getLogger(__name__)

#: Seconds after which a pod that should have ended is spoken of.
_OVERDUE = 60.0


class NotebookRuns:
    """All tickets that hold a share."""

    def __init__(
        self,
        options: KubernetesOptions,
        *,
        stopper: ServerStopper,
        places: Places,
        nodes: Nodes,
        clocks: Clocks,
    ) -> None:
        self._options, self._places, self._nodes = options, places, nodes
        self._now, self._day = clocks.elapsed, clocks.now
        self.pods = PodIndex()
        self.runs: dict[RunKey, Run] = {}
        self._stops = ServerStops(stopper, self._now)

    # --- what the controller says

    def launch(self, launch: Launch) -> None:
        """From now on its devices are prepared, and its pod is waited for."""
        workload = launch.workload
        key = (workload.id, workload.run)
        if key in self.runs:
            return
        run = self.runs[key] = Run(
            id=workload.id,
            number=workload.run,
            launched_at=self._day(),
            known_at=self._now(),
            workload=workload,
            detail=launch.detail,
        )
        self.pods.adopt(key)
        run.may_create = workload.state not in (State.RUNNING, State.STOPPING)
        self._update(run)
        self._places.claim(workload, run.devices())
        # Its pod may be on its way with them, whoever told its spawner.
        self._places.tell(workload, launch.detail.named_devices)

    def stop(self, key: RunKey, grace: Seconds) -> None:
        """The Hub is asked to end it."""
        run = self.runs.get(key)
        if run is None or run.ended is not None:
            return
        deadline = self._now() + max(0.0, grace)
        run.stop_at = deadline if run.stop_at is None else min(run.stop_at, deadline)
        run.steady = None
        self._stops.ask(run)

    def fail(self, key: RunKey, sentence: str) -> None:
        """It must not go on: the Hub is asked to end it, and that sentence is why."""
        run = self.runs.get(key)
        if run is not None and run.ended is None and run.decided is None:
            run.decided = End(outcome=Outcome.FAILED, sentence=sentence)
            self.stop(key, Seconds(0))

    def release(self, key: RunKey) -> None:
        """Its spawner gave it back, and ends its pod itself."""
        run = self.runs.get(key)
        if run is not None:
            run.released, run.steady = True, None

    def forget(self, key: RunKey) -> None:
        """Its end is written down."""
        run = self.runs.pop(key, None)
        if run is not None and run.workload is not None:
            self._places.release(run.workload)
        self._stops.forget(key)
        self.pods.forget(key)

    # --- what the spawner asks

    def pod(self, key: RunKey) -> PodAdditions | None:
        """What its pod must carry; None while that is not known."""
        run = self.runs.get(key)
        if run is None or run.leaving or run.released or run.ended is not None:
            return None
        added = self._place(run).added
        if added is None:
            return None
        if not run.holds_devices:
            # Of no device it needs no node: that of the placement is counted on by nobody, and may be closed to it.
            added = added.model_copy(update={"node": None})
        if run.ready_at is None:
            run.ready_at = self._now()
        labels = {
            **added.labels,
            names.INSTALLATION: self._options.installation,
            names.WORKLOAD: run.id,
            names.ATTEMPT: str(run.number),
        }
        return added.model_copy(update={"labels": labels, "environment": {**added.environment, **_told(added)}})

    def named(self, key: RunKey) -> dict[str, str]:
        """The devices that its pod was told to name, by slot."""
        run = self.runs.get(key)
        return self._places.told(run.workload) if run is not None and run.workload is not None else {}

    def preparing(self, key: RunKey) -> str:
        """What is waited for."""
        run = self.runs.get(key)
        if run is None or run.ended is not None:
            return ""
        return self._place(run).sentence or run.sentence

    def image_of(self, ticket: str) -> str:
        """The image of its pod, by digest where that is known."""
        for key in self.runs:
            if key[0] == ticket:
                for pod in self.pods.of_run(key):
                    return _by_digest(pod.image, pod.image_id)
        return ""

    # --- looking

    def step(self) -> list[Observation]:
        """Do for each what is next; return how they are."""
        calm = not self._nodes.anything_away()
        return [run.ended or self._look(run, calm) for run in list(self.runs.values())]

    def _look(self, run: Run, calm: bool) -> Observation:
        """At what may have changed only."""
        revision = self.pods.revision(run.key)
        if calm and run.steady is not None and run.steady_at == revision and not self._places.is_failing(run.key):
            return run.steady
        seen = self._advance(run)
        calm_run = run.begun_at is not None and run.stop_at is None and not run.released and run.ended is None
        run.steady, run.steady_at = (seen if calm_run and not run.sentence else None), revision
        return seen

    def restart_clocks(self) -> None:
        """The API server was away: nobody could be in time."""
        now = self._now()
        for run in self.runs.values():
            run.ready_at = None if run.ready_at is None else now
            run.unplaced_since = dict.fromkeys(run.unplaced_since, now)

    def slots_in_use(self) -> dict[str, set[str]]:
        """Slots of tickets that have not ended, by node."""
        return slots_in_use(self.runs.values())

    def blocked(self) -> set[str]:
        """Slots on which a notebook's pod stands whose ticket is over, or which nobody has ever heard of."""
        slots: set[str] = set()
        for key in self.pods.runs():
            run = self.runs.get(key)
            if run is None or run.ended is not None:
                slots.update(slot for pod in self.pods.of_run(key) if not pod.finished for slot in pod.slots)
        return slots

    async def close(self) -> None:
        """Give up what is under way."""
        await self._stops.close()

    def _update(self, run: Run) -> None:
        # A server that was started again has another pod of the same ticket: the one that lives counts.
        for parted in self.pods.take_parted(run.key):
            run.pods = {0: parted}
        found = sorted(self.pods.of_run(run.key), key=lambda pod: (not pod.finished, pod.version))
        run.gone = set() if found else set(run.pods)
        if found:
            run.pods = {0: found[-1]}

    def _place(self, run: Run) -> Place:
        assert run.workload is not None
        return self._places.places(run.workload)[0]

    def _advance(self, run: Run) -> Observation:
        self._update(run)
        pod = run.pods.get(0)
        if pod is None:
            return self._advance_awaited(run)
        if pod.phase == "Running" and run.begun_at is None:
            run.begun_at, run.sentence = self._day(), ""
            self._nodes.back_off.clear(pod.node)
        if run.over(0) or self._nodes.lost(pod.node):
            return self._end(run, self._end_of(run))
        if run.workload is not None and (devices := run.devices()):
            self._places.claim(run.workload, devices)
        if run.stop_at is not None:
            self._stops.ask(run)
            run.sentence = self._overdue(run)
        elif pod.phase == "Pending":
            self._watch_start(run)
            if run.decided is not None:
                return self._end(run, run.decided)
        else:
            run.sentence = self._devices_lost(run)
        return run.present()

    def _advance_awaited(self, run: Run) -> Observation:
        """There has been no pod of it yet."""
        now = self._now()
        if run.released:
            return self._end(run, End(outcome=Outcome.SUCCEEDED))
        if run.stop_at is not None:
            self._stops.ask(run)
            over = self._stops.heard(run.key) or now >= run.stop_at
            return self._end(run, End(outcome=Outcome.SUCCEEDED)) if over else run.present()
        if not run.may_create:
            return self._end(run, End(outcome=Outcome.LOST, sentence="Its pod is gone."))
        place = self._place(run)
        run.sentence = place.sentence
        if place.refused:
            return self._end(run, End(outcome=Outcome.REFUSED, sentence=place.sentence))
        if place.added is None:
            run.ready_at = None
            return run.present()
        run.ready_at = now if run.ready_at is None else run.ready_at
        if now - run.ready_at >= self._options.attach_timeout:
            sentence = (
                f"The server was not started within {self._options.attach_timeout:.0f} seconds, so its share is free "
                "again."
            )
            return self._end(run, End(outcome=Outcome.LOST, sentence=sentence))
        return run.present()

    def _watch_start(self, run: Run) -> None:
        """Note what keeps its pod from starting; a pod without a place holds nothing, and its spawner deletes it."""
        pod = run.pods[0]
        run.sentence, _ = trouble_of(pod)
        if pod.node or not pod.unschedulable:
            run.unplaced_since.clear()
            return
        now = self._now()
        since = run.unplaced_since.setdefault(0, now)
        run.sentence = f"The cluster does not place its pod yet: {pod.unschedulable}"
        # One without a device may go to any node, which the cluster may have to add: its spawner's patience counts.
        if run.holds_devices and now - since >= self._options.unschedulable_after:
            node = run.workload.placement[0].node if run.workload and run.workload.placement else ""
            sentence = f"The cluster did not place its pod on {node} in {now - since:.0f} s: {pod.unschedulable}"
            run.decided = End(outcome=Outcome.REFUSED, sentence=sentence)
            if node:
                self._nodes.back_off.add(node, sentence)

    def _end_of(self, run: Run) -> End:
        pod = run.pods[0]
        if run.decided is not None:
            return run.decided
        lost = self._nodes.lost(pod.node) if not run.over(0) else ""
        if lost:
            return End(outcome=Outcome.LOST, sentence=lost)
        if (run.stop_at is not None or run.released) and not pod.disruption:
            return End(outcome=Outcome.SUCCEEDED)
        if pod.ended is None and not pod.disruption and not pod.reason:
            # Deleted by its spawner: its user stopped it.
            return End(outcome=Outcome.SUCCEEDED)
        return end_of_server(pod)

    def _end(self, run: Run, end: End) -> Observation:
        if run.workload is not None:
            self._places.release(run.workload)
        log.info("notebook ended: workload=%s run=%d outcome=%s %s", run.id, run.number, end.outcome, end.sentence)
        return run.end(end, self._day())

    def _devices_lost(self, run: Run) -> str:
        """It is not ended for that: what it holds in memory is for its user to save."""
        failure = self._places.lost_devices(run.workload) if run.workload is not None else ""
        if not failure:
            return ""
        return f"Its device may be in other hands as well, so save your work and start the server again: {failure}"

    def _overdue(self, run: Run) -> str:
        pod = run.pods[0]
        late = self._now() - (run.stop_at or 0.0)
        if not pod.terminating or late < _OVERDUE:
            return ""
        return (
            f"Its pod {pod.name} on {pod.node} should have ended {late:.0f} s ago and still stands; "
            "its devices are not free."
        )


def _by_digest(image: str, image_id: str) -> str:
    """What the kubelet pulled; what was asked for where it does not say by digest."""
    pulled = image_id.rpartition("://")[2]
    return pulled if "@sha256:" in pulled else image


def _told(added: PodAdditions) -> dict[str, str]:
    """What the server has to know before it starts a kernel."""
    if names.SLOTS not in added.annotations:
        return {}
    return {DEVICES_GIVEN_VARIABLE: NAMED if names.DEVICES in added.annotations else CHOSEN}
