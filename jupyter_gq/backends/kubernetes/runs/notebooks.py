"""Notebooks: the spawner makes their pods. Here their devices are prepared, and their pods watched.

Rules
-----
- The pod of a ticket is known by its label. The spawner puts the label there, with all that `pod_additions`
  returns.
- A notebook is ended through the Hub, and its pod is never deleted here.
- A share is held until the pod is gone, whatever the Hub believes.
"""

import logging

from jupyter_gq.backends.kubernetes.clocks import Clocks
from jupyter_gq.backends.kubernetes.nodes.nodes import Nodes
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.pods.index import PodIndex
from jupyter_gq.backends.kubernetes.pods.results import Result
from jupyter_gq.backends.kubernetes.shares.preparation import DevicePreparation, PreparedTask
from jupyter_gq.backends.observer import RunObserver
from jupyter_gq.backends.protocol import Launch, Observation, Outcome
from jupyter_gq.backends.server_stopper import ServerStopper
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.client.pods.device_check import CHOSEN, DEVICES_GIVEN_VARIABLE, NAMED
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.workload import RunKey

from .notebook_judging import ExternalFacts, TicketFacts, judge_ticket
from .phases import RunEvent, RunPhase
from .run import Examined, Run, Verdict, slots_in_use
from .server_stops import ServerStops

log = logging.getLogger(__name__)


class NotebookRuns:
    """The tickets of notebooks that this process knows."""

    def __init__(
        self,
        options: KubernetesOptions,
        *,
        stopper: ServerStopper,
        devices: DevicePreparation,
        nodes: Nodes,
        clocks: Clocks,
    ) -> None:
        self._options, self._devices, self._nodes = options, devices, nodes
        self._now, self._day = clocks.elapsed, clocks.now
        self.pods = PodIndex()
        self.runs: dict[RunKey, Run] = {}
        self._observer = RunObserver()
        self._stops = ServerStops(stopper, self._now)

    # --- what the controller says

    def launch(self, launch: Launch) -> None:
        """Record a ticket, claim its devices, and look for its pod; do nothing if the ticket is known.

        Devices that the launch names are bound to the ticket: its pod may be on its way with these devices.
        """
        workload = launch.workload
        key = (workload.id, workload.run)
        if key in self.runs:
            return
        run = self.runs[key] = Run(
            id=workload.id, number=workload.run, launched_at=self._day(), known_at=self._now(), launch=launch
        )
        self.pods.adopt(key)
        if run.is_new:
            run.apply(RunEvent.LAUNCHED, self._now())
        self._read_pods(run)
        self._devices.claim(workload, run.named_devices())
        # The pod may be on its way with these devices, whoever told its spawner.
        self._devices.fix_devices(workload, launch.detail.named_devices)

    def stop(self, key: RunKey, grace: Seconds) -> None:
        """Ask the Hub to end the server, also after `release`; the ticket ends within `grace` seconds without a pod.

        A pod is waited for without end. Nothing happens if the ticket is unknown or has ended.
        """
        self._stops.renew(key)
        self._request_stop(key, grace)

    def _request_stop(self, key: RunKey, grace: Seconds) -> None:
        """Record that the ticket shall end, and ask the Hub to stop its server unless the Hub does so by itself."""
        run = self.runs.get(key)
        if run is None or run.ended is not None:
            return
        run.request_stop(self._now() + max(0.0, grace), self._now())
        self._ask_hub(run)

    def _ask_hub(self, run: Run) -> None:
        """Ask the Hub to stop the server of a ticket, if that is due.

        The Hub knows servers by name: after `release` it may have started the server again under its name. The Hub
        would stop that one, and is not asked.
        """
        if run.phase is not RunPhase.RELEASED or not self._was_started_again(run):
            self._stops.ask(run)

    def _was_started_again(self, run: Run) -> bool:
        """Return whether a later ticket of the same server has a pod."""
        own = run.workload
        return own is not None and any(
            (other.workload.owner, other.workload.name) == (own.owner, own.name)
            and other.workload.submission > own.submission
            and bool(other.live_pods())
            for other in self.runs.values()
            if other.workload is not None
        )

    def fail(self, key: RunKey, sentence: str) -> None:
        """Record that the ticket ends as FAILED with this sentence, and ask the Hub to stop its server.

        Nothing happens if the ticket is unknown, has ended, or has a verdict already.
        """
        run = self.runs.get(key)
        if run is not None and run.ended is None and run.verdict is None:
            run.give_up(Verdict(result=Result(outcome=Outcome.FAILED, sentence=sentence)), self._now())
            self._request_stop(key, Seconds(0))

    async def release(self, workload: str, run: int) -> None:
        """Record that the spawner gave the ticket back and ends the pod itself; ask the Hub no more.

        Nothing happens if the ticket is unknown or has ended.
        """
        ticket = self.runs.get((workload, run))
        if ticket is not None and ticket.ended is None:
            ticket.apply(RunEvent.RELEASED, self._now())
            ticket.examined = None
            self._stops.withdraw(ticket.key)

    def forget(self, key: RunKey) -> None:
        """Drop a ticket and its claims to devices, and cancel a request to stop its server that is under way.

        The caller must have recorded the result. An unknown ticket is allowed.
        """
        run = self.runs.pop(key, None)
        if run is not None and run.workload is not None:
            self._devices.release(run.workload)
        self._stops.forget(key)
        self._observer.forget(key)
        self.pods.forget(key)

    # --- what the spawner asks

    def pod_additions(self, workload: str, run: int) -> PodAdditions | None:
        """Return what the pod of the ticket must carry, and reserve its devices if that is not done.

        None: the devices are not ready, or no pod is wanted, because the ticket is unknown, ends or was given back. A
        waiting run is recorded as having its devices ready. A run without devices is bound to no node.
        """
        ticket = self.runs.get((workload, run))
        if ticket is None or ticket.is_ending or ticket.phase is RunPhase.RELEASED or ticket.ended is not None:
            return None
        additions = self._prepare(ticket).additions
        if additions is None:
            return None
        if not ticket.holds_devices:
            # Nobody counts on the node of the placement, and it may be closed to a pod without devices.
            additions = additions.model_copy(update={"node": None})
        if ticket.phase is RunPhase.WAITING:
            ticket.apply(RunEvent.DEVICES_READY, self._now())
        labels = {
            **additions.labels,
            names.INSTALLATION: self._options.installation,
            names.WORKLOAD: ticket.id,
            names.ATTEMPT: str(ticket.number),
        }
        environment = {**additions.environment, **_describe_choice(additions)}
        return additions.model_copy(update={"labels": labels, "environment": environment})

    def named_devices(self, workload: str, run: int) -> dict[str, str]:
        """Return the devices that the pod was told to name, by slot; empty if there are none, or no such ticket."""
        ticket = self.runs.get((workload, run))
        return (
            self._devices.fixed_devices(ticket.workload) if ticket is not None and ticket.workload is not None else {}
        )

    def describe_preparation(self, workload: str, run: int) -> str:
        """Reserve the ticket's devices if that is not done; return what the ticket is waiting for, as a sentence.

        Returns "" if it waits for nothing, is unknown or has ended.
        """
        ticket = self.runs.get((workload, run))
        if ticket is None or ticket.ended is not None:
            return ""
        return self._prepare(ticket).sentence or ticket.sentence

    def image_of(self, ticket: str) -> str:
        """Return the image of the pod that holds this ticket, by digest if that is known; "" if there is no pod."""
        for key in self.runs:
            if key[0] == ticket:
                for pod in self.pods.of_run(key):
                    return _by_digest(pod.image, pod.image_id)
        return ""

    # --- each step

    def step(self) -> list[Observation]:
        """Advance each ticket by what its pod and its devices allow now; return one observation of each."""
        return [run.ended or self._examine_alone(run) for run in list(self.runs.values())]

    def _examine_alone(self, run: Run) -> Observation:
        """Return the observation of a ticket; if the ticket cannot be examined, its last one: no other is affected."""
        return self._observer.observe(run.key, Instant(run.launched_at), lambda: self._examine(run))

    def _examine(self, run: Run) -> Observation:
        """Advance the ticket if something may have changed, and return its observation; else return the last one."""
        revision, before = self.pods.revision(run.key), run.examined
        is_disturbed = self._devices.is_failing(run.key) or self._nodes.is_any_away(run.nodes)
        if before is not None and before.revision == revision and before.report is not None and not is_disturbed:
            return before.report
        report = self._advance(run)
        is_steady = run.phase is RunPhase.RUNNING and not report.sentence
        run.examined = Examined(revision=revision, report=report if is_steady else None)
        return report

    def restart_clocks(self) -> None:
        """Count all delays from now: while the API server was away, nothing could be in time."""
        for run in self.runs.values():
            run.restart_delays(self._now())

    def slots_in_use(self) -> dict[str, set[str]]:
        """Return the slots of tickets that have not ended, by node."""
        return slots_in_use(self.runs.values())

    def blocked_slots(self) -> set[str]:
        """Return the slots of notebooks' pods whose ticket has ended, or which no ticket is known for."""
        slots: set[str] = set()
        for key in self.pods.runs():
            run = self.runs.get(key)
            if run is None or run.ended is not None:
                for pod in self.pods.of_run(key):
                    if not pod.finished:
                        slots.update(pod.slots)
        return slots

    async def close(self) -> None:
        """Cancel the requests to the Hub that are under way."""
        await self._stops.close()

    def _read_pods(self, run: Run) -> None:
        """Store the last view of the ticket's pod, and whether the pod was deleted.

        If a pod was seen and the ticket still awaits one, move the ticket to STARTING. A server that was restarted has
        a new pod: the live one counts.
        """
        for deleted in self.pods.take_deleted(run.key):
            run.pods = {0: deleted}
        found = sorted(self.pods.of_run(run.key), key=lambda pod: (not pod.is_over, pod.version))
        run.gone = set() if found else set(run.pods)
        if found:
            run.pods = {0: found[-1]}
        if run.creates_pods and run.pods:
            run.apply(RunEvent.PODS_SEEN, self._now())

    def _prepare(self, run: Run) -> PreparedTask:
        assert run.workload is not None
        return self._devices.prepare(run.workload)[0]

    def _advance(self, run: Run) -> Observation:
        self._read_pods(run)
        self._note_beginning(run)
        if run.workload is not None and not run.is_over(0) and (devices := run.named_devices()):
            self._devices.claim(run.workload, devices)
        external = self._external_facts(run)
        judgement = judge_ticket(TicketFacts.of(run), external, self._options, self._now())
        run.sentence, run.delays = judgement.sentence, {0: judgement.delays}
        if judgement.verdict is not None:
            return self._end_with(run, judgement.verdict)
        if run.stop_deadline is not None and not run.is_over(0) and not external.lost:
            self._ask_hub(run)
        if judgement.result is not None:
            return self._end(run, judgement.result)
        return run.observe()

    def _note_beginning(self, run: Run) -> None:
        pod = run.pods.get(0)
        if pod is None or not pod.has_begun or pod.finished or run.begun_at is not None:
            return
        run.begun_at = self._day()
        self._nodes.back_off.clear(pod.node)
        if run.phase in (RunPhase.KNOWN, RunPhase.STARTING):
            run.apply(RunEvent.BEGAN, self._now())

    def _external_facts(self, run: Run) -> ExternalFacts:
        """Return the facts of the cluster and of the Hub by which a ticket is judged.

        Before there is a pod, the phase of the ticket follows whether its devices are ready.
        """
        pod, prepared = run.pods.get(0), None
        if run.creates_pods:
            prepared = self._prepare(run)
            if run.phase is RunPhase.WAITING and prepared.additions is not None:
                run.apply(RunEvent.DEVICES_READY, self._now())
            elif run.phase is RunPhase.CREATING and prepared.additions is None:
                run.apply(RunEvent.DEVICES_WITHDRAWN, self._now())
        return ExternalFacts(
            prepared=prepared,
            lost=self._nodes.lost(pod.node) if pod is not None and not run.is_over(0) else "",
            taken_device=self._devices.describe_taken_device(run.workload) if run.workload is not None else "",
            hub_has_accepted=self._stops.has_accepted(run.key),
        )

    def _end_with(self, run: Run, verdict: Verdict) -> Observation:
        run.give_up(verdict, self._now())
        for node in verdict.back_off:
            self._nodes.back_off.add(node, verdict.result.sentence)
        return self._end(run, verdict.result)

    def _end(self, run: Run, result: Result) -> Observation:
        if run.workload is not None:
            self._devices.release(run.workload)
        ended = "notebook ended: workload=%s run=%d outcome=%s %s"
        ids = {"workload": run.id, "run": run.number}
        log.info(ended, run.id, run.number, result.outcome, result.sentence, extra=ids)
        return run.finish(result, self._now(), self._day())


def _by_digest(image: str, image_id: str) -> str:
    """Return the image that the kubelet pulled; the one that was asked for, if the kubelet names no digest."""
    pulled = image_id.rpartition("://")[2]
    return pulled if "@sha256:" in pulled else image


def _describe_choice(additions: PodAdditions) -> dict[str, str]:
    """Return the variable that says who chose the server's devices; empty without a device.

    A server has to know that before it starts a kernel.
    """
    if names.SLOTS not in additions.annotations:
        return {}
    return {DEVICES_GIVEN_VARIABLE: NAMED if names.DEVICES in additions.annotations else CHOSEN}
