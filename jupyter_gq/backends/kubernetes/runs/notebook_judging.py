"""Whether a notebook's ticket has ended, or has to end although nobody asked for it. Pure: facts and a time go in.

Rules
-----
- The released-ticket rule: a ticket that its spawner gave back has ended as soon as no pod of it is left.
- The stopped-ticket rule: a ticket that shall stop and never had a pod has ended once the Hub has taken the request,
  and at its deadline in any case.
- The missing-pod rule: a ticket that is only looked for and has no pod is LOST.
- The no-place rule: if its devices cannot be had, the ticket is refused.
- The attach rule: a server whose pod is not there `attach_timeout` seconds after its devices were ready is LOST.
- The ended-pod rule: a ticket whose server has ended, or whose pod was deleted, has ended. If somebody asked for the
  end, or the pod was deleted and nobody else disrupted it, the ticket has SUCCEEDED.
- The lost-node rule: a ticket whose pod is on a lost node is LOST.
- The unplaced rule: a pod with devices that the cluster does not place for `unschedulable_after` seconds is refused.
  The node of its placement takes nothing new for a while. A pod without devices may go to any node, which the cluster
  may have to add: only its spawner decides how long to wait.
- The taken-device rule: a notebook whose device was given to others goes on, and its owner is told. What it holds in
  memory is for its owner to save.
"""

from dataclasses import dataclass

from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.pods.results import Result, find_trouble, read_server_result
from jupyter_gq.backends.kubernetes.pods.unplaced import blames_node
from jupyter_gq.backends.kubernetes.shares.preparation import PreparedTask
from jupyter_gq.backends.protocol import Outcome

from .phases import RunPhase
from .run import NO_DELAYS, Run, TaskDelays, Verdict, describe_overdue


@dataclass(frozen=True, kw_only=True, slots=True)
class TicketFacts:
    """The part of a notebook's run that the rules read."""

    phase: RunPhase
    #: The last view of the pod; None: there was none yet.
    pod: PodView | None
    #: The server has ended, or its pod was deleted.
    is_over: bool = False
    delays: TaskDelays = NO_DELAYS
    #: When the devices were ready, if they are.
    ready_since: float | None = None
    holds_devices: bool = False
    #: The node of the placement; "" = none.
    planned_node: str = ""
    stop_deadline: float | None = None
    verdict: Verdict | None = None

    @classmethod
    def of(cls, run: Run) -> "TicketFacts":
        """Return the facts of a notebook's run as they are now."""
        placement = run.workload.placement if run.workload is not None else ()
        return cls(
            phase=run.phase,
            pod=run.pods.get(0),
            is_over=run.is_over(0),
            delays=run.delays.get(0, NO_DELAYS),
            ready_since=run.progress.entered.get(RunPhase.CREATING) if run.phase is RunPhase.CREATING else None,
            holds_devices=run.holds_devices,
            planned_node=placement[0].node if placement else "",
            stop_deadline=run.stop_deadline,
            verdict=run.verdict,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ExternalFacts:
    """The part of the cluster's and the Hub's state that the rules read."""

    #: What the pod must carry, or what is waited for; None if no pod may be created.
    prepared: PreparedTask | None = None
    #: Why what runs on the pod's node counts as lost; "" = it does not.
    lost: str = ""
    #: Why a device of the notebook is no longer ours; "" = all are.
    taken_device: str = ""
    #: The Hub has taken the request to stop the server.
    hub_has_accepted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class TicketJudgement:
    """The answer of the rules for a ticket at one time. With a verdict or a result the ticket has ended."""

    verdict: Verdict | None = None
    result: Result | None = None
    #: What the owner is told while the ticket goes on.
    sentence: str = ""
    #: To be given to the next judgement.
    delays: TaskDelays = NO_DELAYS


def judge_ticket(run: TicketFacts, external: ExternalFacts, options: KubernetesOptions, now: float) -> TicketJudgement:
    """Return a judgement by the rules of this module: the ticket has ended, has to end, or goes on with a sentence.

    `now` is a time of the monotonic clock.
    """
    pod = run.pod
    if pod is None:
        return _judge_without_pod(run, external, options, now)
    if run.is_over:
        return TicketJudgement(result=_read_result(run, pod))
    if external.lost:
        if run.verdict is not None:
            return TicketJudgement(result=run.verdict.result)
        return TicketJudgement(verdict=_verdict(Outcome.LOST, external.lost))
    if run.stop_deadline is not None:
        return TicketJudgement(sentence=describe_overdue(pod, run.stop_deadline, now), delays=run.delays)
    if not pod.has_begun:
        return _judge_start(run, pod, options, now)
    return TicketJudgement(sentence=_tell_taken_device(external.taken_device))


def _judge_without_pod(
    run: TicketFacts, external: ExternalFacts, options: KubernetesOptions, now: float
) -> TicketJudgement:
    if run.phase is RunPhase.RELEASED:
        return TicketJudgement(result=Result(outcome=Outcome.SUCCEEDED))
    if run.stop_deadline is not None:
        is_over = external.hub_has_accepted or now >= run.stop_deadline
        return TicketJudgement(result=Result(outcome=Outcome.SUCCEEDED) if is_over else None)
    if external.prepared is None:
        return TicketJudgement(verdict=_verdict(Outcome.LOST, "The pod is gone."))
    if external.prepared.is_refused:
        return TicketJudgement(verdict=_verdict(Outcome.REFUSED, external.prepared.sentence))
    limit = options.attach_timeout
    if run.ready_since is not None and now - run.ready_since >= limit:
        sentence = f"The server was not started within {limit:.0f} seconds, so the share is free again."
        return TicketJudgement(verdict=_verdict(Outcome.LOST, sentence))
    return TicketJudgement(sentence=external.prepared.sentence)


def _judge_start(run: TicketFacts, pod: PodView, options: KubernetesOptions, now: float) -> TicketJudgement:
    if pod.node or not pod.unschedulable:
        return TicketJudgement(sentence=find_trouble(pod)[0])
    since = now if run.delays.unplaced is None else run.delays.unplaced
    if run.holds_devices and now - since >= options.unschedulable_after:
        node = run.planned_node
        sentence = f"The cluster did not place the pod {pod.name} on {node} in {now - since:.0f} s: {pod.unschedulable}"
        closed = (node,) if node and blames_node(pod.unschedulable) else ()
        return TicketJudgement(verdict=_verdict(Outcome.REFUSED, sentence, closed))
    sentence = f"The cluster does not place the pod {pod.name} yet: {pod.unschedulable}"
    return TicketJudgement(sentence=sentence, delays=TaskDelays(unplaced=since))


def _read_result(run: TicketFacts, pod: PodView) -> Result:
    """Return the result of a ticket whose server has ended or whose pod was deleted.

    An earlier verdict stays. If somebody asked for the end or deleted the pod, and nobody else disrupted it, the result
    is SUCCEEDED. For all other ends see `read_server_result`.
    """
    if run.verdict is not None:
        return run.verdict.result
    was_asked = run.phase is RunPhase.RELEASED or run.stop_deadline is not None
    was_deleted = pod.ended is None and not pod.reason and not pod.never_began
    if (was_asked or was_deleted) and not pod.disruption:
        return Result(outcome=Outcome.SUCCEEDED)
    return read_server_result(pod)


def _tell_taken_device(why: str) -> str:
    if not why:
        return ""
    return (
        f"The device of the server may be used by others as well, so save your work and start the server again: {why}"
    )


def _verdict(outcome: Outcome, sentence: str, back_off: tuple[str, ...] = ()) -> Verdict:
    return Verdict(result=Result(outcome=outcome, sentence=sentence), back_off=back_off)
