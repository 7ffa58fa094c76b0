"""The suspension of the shares of notebooks by the agents of the nodes; see `backends.share_suspension`.

Rules
-----
- Lent by reservation: only a device that a reservation pod holds can be given to another pod meanwhile. A device that
  the kubelet gave to the notebook's pod itself stays with that pod until it ends.
- One device, and the same one again: a container keeps the device files with which it began.
- Notebooks only: a job on a cluster is ended with its checkpoint, because its pod would keep what it has given back.
- Followed to the end: settings decide whether a share may be suspended, never whether it is followed. A share that was
  suspended before its pool got another provider comes back like any other.

See docs/decisions/0201-lend-only-what-a-reservation-holds.md,
docs/decisions/0232-try-an-unfinished-recovery-again.md and
docs/decisions/0236-leave-jobs-on-clusters-to-their-checkpoints.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from jupyter_gq.backends.protocol import Observation
from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import RunKey

from .api.views import PodView
from .nodes.agents import Agents, is_whole
from .nodes.nodes import Nodes
from .nodes.share_orders import ShareOrders
from .providers import PROVIDERS
from .runs.notebooks import NotebookRuns

_JOB = "A job on a cluster is not suspended: it is told to end with its checkpoint."
_UNSEEN = "The pod of the notebook has not been seen yet."
_GIVEN = (
    "The kubelet gave the GPU to this pod itself, and lends it to nobody before the pod ends. A part of a GPU can be "
    "suspended, and so can a whole one in a pool with hold: always."
)
_PROVIDER = "The provider {provider} counts the GPU memory of its pods itself, so what is suspended would not be free."
_SEVERAL = "Only the share of one GPU is suspended on a cluster."
_SLICE = "A slice of a GPU (MIG) cannot be suspended."
#: The phase of a share by the state of its record; IN_USE for all other states.
_KNOWN = {State.SUSPENDED: SharePhase.SUSPENDED, State.RESUMING: SharePhase.RESUMING}


@dataclass(frozen=True, kw_only=True, slots=True)
class PodSuspension:
    """The port `capabilities.suspension` of the Kubernetes backend."""

    agents: Agents
    orders: ShareOrders
    nodes: Nodes
    notebooks: NotebookRuns

    @property
    def can_move(self) -> bool:
        """Whether a share can be resumed on another device: never, because its container sees only its own."""
        return False

    @property
    def trouble(self) -> str:
        """The troubles of the journals on the nodes, as sentences for administrators; "" if there are none."""
        return " ".join(self.agents.list_journal_troubles())

    def describe_refusal(self, workload: str, run: int) -> str:
        """Return why the share of a run can never be suspended, as a sentence; "" if an attempt is worthwhile."""
        key = (workload, run)
        if key not in self.notebooks.runs:
            return _JOB
        pod = self._pod(key)
        if pod is None:
            return _UNSEEN
        why = self._refuse_in_pool(pod.node) or _refuse(pod) or self.agents.explain_no_suspension(pod.node)
        return why or self.orders.refusal(pod.uid)

    def suspend(self, workload: str, run: int) -> None:
        """Order that a share in use is suspended; do nothing in any other phase, or if the run is unknown."""
        pod = self._pod((workload, run))
        if pod is not None:
            self.orders.suspend(pod.uid)

    def resume(self, workload: str, run: int, devices: Sequence[str] = ()) -> None:
        """Order that a suspended share comes back to its device, or that a suspension under way is undone.

        `devices` are the slot of the share, or none; a share comes back nowhere else.
        """
        pod = self._pod((workload, run))
        if pod is not None:
            self.orders.resume(pod.uid)

    def watch(self, seen: Iterable[Observation]) -> list[Observation]:
        """Return the observations of notebooks with the state of their shares.

        Shares of pods that can be suspended are managed from now on, until their pods have ended. The provider of the
        pool does not matter here, since it may have been another one when the share was suspended.
        """
        pods = {(each.workload, each.run): self._pod((each.workload, each.run)) for each in seen}
        found = {key: pod for key, pod in pods.items() if pod is not None and not _refuse(pod)}
        for key, pod in found.items():
            workload = self.notebooks.runs[key].workload
            if workload is not None:
                self.orders.add(pod.uid, pod.node, pod.devices[0], _KNOWN.get(workload.state, SharePhase.IN_USE))
        self.orders.begin_step(frozenset(pod.uid for pod in found.values()))
        return [self._with_share(each, found.get((each.workload, each.run))) for each in seen]

    def _with_share(self, seen: Observation, pod: PodView | None) -> Observation:
        if pod is None:
            return seen
        sentence = seen.sentence or self.orders.trouble(pod.uid)
        if not sentence and self.orders.is_away(pod.uid) and (why := self.agents.explain_no_suspension(pod.node)):
            sentence = f"The GPU memory of this notebook cannot come back at present. {why}"
        share = self.orders.state(pod.uid)
        if not sentence and share is None:
            sentence = self.agents.trouble(pod.node, pod.uid)
        return (
            seen if (share, sentence) == (seen.share, seen.sentence) else replace(seen, share=share, sentence=sentence)
        )

    def _pod(self, key: RunKey) -> PodView | None:
        """Return the pod of a notebook that has begun and has not ended; None if there is none."""
        live = (pod for pod in self.notebooks.pods.of_run(key) if pod.has_begun and not pod.is_over)
        return next(live, None) if key in self.notebooks.runs else None

    def _refuse_in_pool(self, node: str) -> str:
        """Return why no share of the pool of a node is lent at present; "" if shares are."""
        pool = self.nodes.pool(node)
        if pool is not None and not PROVIDERS[pool.provider].needs_reservation(pool, whole=False):
            return _PROVIDER.format(provider=pool.provider)
        return ""


def _refuse(pod: PodView) -> str:
    """Return why the share of a pod can never be lent, whatever the settings say; "" if it can."""
    if not pod.devices:
        return _GIVEN
    if len(pod.devices) > 1:
        return _SEVERAL
    return "" if is_whole(pod.devices[0]) else _SLICE
