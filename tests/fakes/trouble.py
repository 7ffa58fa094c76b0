"""Machines and clusters that are not as others, each named by what goes wrong with it."""

from collections.abc import Sequence
from dataclasses import replace

from jupyter_gq.backends.capabilities import Attestation, AttestationResult, Capabilities
from jupyter_gq.backends.protocol import Launch, Observation, Outcome, Phase
from jupyter_gq.client.agents import AgentOrders, AgentReport
from jupyter_gq.client.models import NodeDescription
from jupyter_gq.domain.cluster import SHARE_LABEL, Node
from jupyter_gq.domain.errors import BackendError, StorageFull
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.share_level import ShareLevel
from jupyter_gq.domain.workload import Kind

from .machine import FakeBackend, FakeRun
from .time_and_death import FixedClock, Fuse


class RefusesEveryLaunch(FakeBackend):
    """The machine cannot start anything."""

    async def launch(self, launch: Launch) -> None:
        self.launches.append(launch)
        raise BackendError("the disk of the job folder is read-only")


class HasNoRoom(FakeBackend):
    """While `full`, the disk of the machine has no room for the files of a start."""

    full = True

    async def launch(self, launch: Launch) -> None:
        if self.full:
            raise StorageFull("The disk with the jobs has no room for a start: No space left on device.")
        await super().launch(launch)


class RefusesLate(FakeBackend):
    """Refuses each launch with `error`, after requests came in `meanwhile`."""

    error: Exception = StorageFull("No space left on device.")

    def meanwhile(self) -> None:
        """Do what users do during a launch; tests replace this."""

    async def launch(self, launch: Launch) -> None:
        self.meanwhile()
        raise self.error


class OneLaunchIsDefective(FakeBackend):
    """A mistake in the backend shows with one job only, `hurt`."""

    hurt = ""

    def __init__(self, clock: FixedClock, nodes: Sequence[Node], fuse: Fuse | None = None) -> None:
        super().__init__(clock, nodes, fuse)
        self.tried: list[Launch] = []

    async def launch(self, launch: Launch) -> None:
        if launch.workload.id == self.hurt:
            self.tried.append(launch)
            raise RuntimeError("a defect")
        await super().launch(launch)


class DiesDuringStart(FakeBackend):
    """The process is there, and ends before it runs."""

    def _go_on(self, run: FakeRun) -> None:
        if run.phase is Phase.STARTING:
            self._end(run, Outcome.FAILED, "The kernel died while it started.")


class PlaceIsTaken(FakeBackend):
    """The place that was decided is not to be had, so many times (`refusals`)."""

    refusals = 10**6

    def _go_on(self, run: FakeRun) -> None:
        if run.phase is Phase.STARTING and self.refusals:
            self.refusals -= 1
            self._end(run, Outcome.REFUSED, "Node n1 rejected the pod: 0/1 nodes are available.")
        else:
            super()._go_on(run)


class ForgetsEverything(FakeBackend):
    """Keeps nothing of its own, as one whose runs are objects of a cluster; what nobody knows it keeps."""

    capabilities = Capabilities(forgetful=True, keeps_unknown=True)


class PodsAreLeftBehind(ForgetsEverything):
    """Somebody else made pods for notebooks, and they stand without a ticket."""

    left = ()

    def __init__(self, clock: FixedClock, nodes: Sequence[Node], fuse: Fuse | None = None) -> None:
        super().__init__(clock, nodes, fuse)
        self.capabilities = replace(self.capabilities, strays=lambda: self.left)


class SharesOnSomeNodes(FakeBackend):
    """Only nodes with a label can share their devices."""

    capabilities = Capabilities(share_label=SHARE_LABEL)


class RunsPods(FakeBackend):
    """Its tasks are pods, whose uids the test writes into `pods`; it hears agents, whose orders the test sets."""

    kinds = frozenset({Kind.NOTEBOOK, Kind.TRAINING})

    def __init__(self, clock: FixedClock, nodes: Sequence[Node], fuse: Fuse | None = None) -> None:
        super().__init__(clock, nodes, fuse)
        #: Task of each pod, by workload, run and uid.
        self.pods: dict[tuple[str, int, str], int] = {}
        self.images: dict[str, str] = {}
        #: What is known of the devices of tasks, by workload, run and task.
        self.seen: dict[tuple[str, int, int], Attestation] = {}
        self.heard: list[tuple[str, AgentReport]] = []
        self.told: dict[str, AgentOrders] = {}
        #: What agents told of their nodes.
        self.described: list[NodeDescription] = []
        #: How strongly shares of each pool are enforced.
        self.levels: dict[str, ShareLevel] = {}
        self.capabilities = Capabilities(pod_lookup=self, images=True, agent_reports=self, enforcement=self.enforcement)

    def find_task(self, workload: str, run: int, identity: PodIdentity) -> int | None:
        return self.pods.get((workload, run, identity.uid))

    def image_of(self, ticket: str) -> str:
        return self.images.get(ticket, "")

    def present_tasks(self, workload: str, run: int) -> tuple[int, ...]:
        return tuple(sorted(task for (job, number, _), task in self.pods.items() if (job, number) == (workload, run)))

    def attestation(self, workload: str, run: int, task: int) -> Attestation:
        right = Attestation(result=AttestationResult.RIGHT, required=True, sentence="It sees its own devices.")
        return self.seen.get((workload, run, task), right)

    def enforcement(self, pool: str) -> ShareLevel | None:
        return self.levels.get(pool)

    def describe_nodes(self) -> Sequence[NodeDescription]:
        return self.described

    def accept_report(self, node: str, report: AgentReport) -> AgentOrders:
        self.heard.append((node, report))
        return self.orders(node)

    def lose_devices(self) -> None:
        """All of them fall ill."""
        self._nodes = tuple(
            replace(node, devices=tuple(replace(device, healthy=False) for device in node.devices))
            for node in self._nodes
        )

    def orders(self, node: str) -> AgentOrders:
        return self.told.get(node, AgentOrders())


class NeverStops(FakeBackend):
    """Ignores every signal."""

    def _told_to_stop(self, run: FakeRun) -> None:
        """Nothing happens."""


class StopsTooLate(FakeBackend):
    """Does not save its state in its time and is killed."""

    def _told_to_stop(self, run: FakeRun) -> None:
        """The deadline decides."""

    def _go_on(self, run: FakeRun) -> None:
        super()._go_on(run)
        if run.phase is Phase.RUNNING and run.deadline is not None and self._clock.now() >= run.deadline:
            self._end(run, Outcome.KILLED, "It did not stop in its time.")


class FinishesAnyway(FakeBackend):
    """Told to stop, its code was just done."""

    def _told_to_stop(self, run: FakeRun) -> None:
        self._end(run, Outcome.SUCCEEDED, "")


class CannotBeObserved(FakeBackend):
    """Answers no question while `blind`."""

    blind = False

    async def observe(self) -> Sequence[Observation]:
        if self.blind:
            raise BackendError("the process table cannot be read")
        return await super().observe()
