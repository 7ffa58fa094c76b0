"""Which pod a service-account token belongs to, asked of the cluster; and which pods may speak here at all.

Rules
-----
1. A token must be made for the audience of this service: one for the API server, or for somebody else, is none.
2. An agent speaks for the node that its token names, and for no other; a job's runner only as the pod that it is.
3. What the cluster said of a runner's token is believed for a few seconds: it comes once. Agents come every few seconds
   for ever: theirs is believed for minutes, and while the cluster cannot be asked, longer. None outlives the end that
   it names. A failure to ask is never remembered.
"""

import logging
from collections.abc import Awaitable, Callable

from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.identity import PodIdentity

from .access import Access
from .errors import ApiRefusal, refusal
from .holders import Belief, Holders, acceptable

log = logging.getLogger(__name__)

AUDIENCE = "jupyter-gq"
#: Service accounts of our pods.
AGENT_ACCOUNT, RUNNER_ACCOUNT = "gq-agent", "gq-runner"
#: The longest that the end of a runner's pod goes unnoticed, and of a token that does not say when it ends; in seconds.
BRIEFLY = 5.0
#: A token of a runner, and of an agent. 500 agents are asked about three times a second.
RUNNERS = Belief(seconds=BRIEFLY)
AGENTS = Belief(seconds=300.0, early=0.8, spread=0.4, outlast=3600.0, pause=30.0)
MOST_CACHED = 4096

#: Asks the cluster whose token this is, for that audience; None = nobody's. Raises `BackendError` when it cannot.
Review = Callable[[str, str], Awaitable[PodIdentity | None]]


class PodAuthenticator:
    """Tells which pod a token belongs to, and whether that pod may use a route."""

    def __init__(
        self,
        review: Review,
        *,
        nodes_namespace: str,
        training_namespace: str,
        clock: Callable[[], float] | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        """`review` is `Cluster.review_token`; agents live in `nodes_namespace`, runners in `training_namespace`.

        `clock` counts seconds, `now` tells the time.
        """
        self._review, self._now = review, now or SystemClock().now
        self._allowed = {
            Access.AGENT: (nodes_namespace, AGENT_ACCOUNT),
            Access.POD: (training_namespace, RUNNER_ACCOUNT),
        }
        #: What is known of a token for one purpose says nothing for another.
        self._holders = {
            access: Holders(self._ask, belief, most=MOST_CACHED, left=self._left, clock=clock)
            for access, belief in ((Access.AGENT, AGENTS), (Access.POD, RUNNERS))
        }
        #: Refusals that stand in the log, by the uid of the pod and the code; a set that knows which came first.
        self._told: dict[tuple[str, str], None] = {}
        #: The cluster could not be asked the last time.
        self._away = False

    async def permitted(self, token: str, access: Access, node: str | None = None) -> PodIdentity:
        """The pod that speaks, if it may; `node` is the one it wants to speak for. A `ApiRefusal` otherwise."""
        if not acceptable(token):
            raise invalid_pod_token()
        pod = await self._holders[access].of(token)
        namespace, account = self._allowed[access]
        if (pod.namespace, pod.service_account) != (namespace, account):
            raise self._said(pod, _wrong_account(pod, namespace, account))
        if node is not None and pod.node != node:
            raise self._said(pod, _wrong_node(pod, node))
        return pod

    def _said(self, pod: PodIdentity, refused: ApiRefusal) -> ApiRefusal:
        """Once in the log too: who looks for an agent that is not heard reads that, and not what its pod is told."""
        code, sentence = refused.problem.code, refused.problem.message
        if (pod.uid, code) not in self._told:
            self._told[pod.uid, code] = None
            log.warning("pod_refused code=%s pod=%s/%s node=%s: %s", code, pod.namespace, pod.pod, pod.node, sentence)
            if len(self._told) > MOST_CACHED:
                del self._told[next(iter(self._told))]
        return refused

    async def _ask(self, token: str) -> PodIdentity:
        try:
            pod = await self._review(token, AUDIENCE)
        except (BackendError, OSError, TimeoutError) as error:
            if not self._away:
                log.warning("tokens of pods cannot be reviewed: %s", error)
            self._away = True
            raise _cluster_unreachable() from error
        if self._away:
            log.info("tokens of pods are reviewed again")
        self._away = False
        if pod is None:
            raise invalid_pod_token()
        return pod

    def _left(self, pod: PodIdentity) -> float:
        return BRIEFLY if pod.expires is None else pod.expires - self._now()


def no_pods() -> ApiRefusal:
    """There is no cluster whose pods could speak."""
    return refusal(
        404,
        "no_pods",
        "This service does not run on Kubernetes, so no pod has anything to say here: agents and runners in pods use "
        "this route. Set SchedulerService.backend to 'kubernetes' if it should.",
    )


def invalid_pod_token() -> ApiRefusal:
    """The cluster does not know this token, or it was not made for us."""
    return refusal(
        401,
        "invalid_pod_token",
        "The cluster does not vouch for this token as one of a pod that is alive, for the audience "
        f"{AUDIENCE!r}. Send the token that is projected into the pod for that audience; Hub tokens and tokens of "
        "jobs are not known here.",
        WWW_Authenticate='Bearer realm="jupyter-gq", error="invalid_token"',
    )


def _wrong_account(pod: PodIdentity, namespace: str, account: str) -> ApiRefusal:
    return refusal(
        403,
        "wrong_service_account",
        f"The pod {pod.pod} runs as the service account {pod.service_account!r} in the namespace {pod.namespace!r}, "
        f"but this route is for {account!r} in {namespace!r}.",
    )


def _wrong_node(pod: PodIdentity, node: str) -> ApiRefusal:
    if not pod.node:
        told = "does not say on which node it is (Kubernetes does that since 1.30)"
    else:
        told = f"is on the node {pod.node!r}"
    return refusal(403, "wrong_node", f"The pod {pod.pod} {told}, so it cannot report for the node {node!r}.")


def _cluster_unreachable() -> ApiRefusal:
    return refusal(
        503,
        "cluster_unreachable",
        "The cluster cannot be asked now whose token this is. Try again in a moment.",
        Retry_After="2",
    )
