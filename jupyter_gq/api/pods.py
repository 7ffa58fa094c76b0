"""Which pod a service-account token belongs to, asked of the cluster; and which pods may speak here at all.

Rules
-----
1. A token must be made for the audience of this service: one for the API server, or for somebody else, is none.
2. An agent speaks for the node that its token names, and for no other; a job's runner only as the pod that it is.
3. What the cluster said is believed for a few seconds. A failure to ask it is never remembered.
"""

import logging
from collections.abc import Awaitable, Callable

from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.identity import PodIdentity

from .access import Access
from .errors import Refusal, refusal
from .holders import Holders, acceptable

log = logging.getLogger(__name__)

AUDIENCE = "jupyter-gq"
#: Service accounts of our pods.
AGENT_ACCOUNT, RUNNER_ACCOUNT = "gq-agent", "gq-runner"
#: The longest that the end of a pod goes unnoticed, in seconds.
MAX_CACHE = 5.0
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
        cache_seconds: float = MAX_CACHE,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`review` is `Cluster.review_token`; agents live in `nodes_namespace`, runners in `training_namespace`."""
        self._review = review
        self._allowed = {
            Access.AGENT: (nodes_namespace, AGENT_ACCOUNT),
            Access.POD: (training_namespace, RUNNER_ACCOUNT),
        }
        self._holders = Holders(self._ask, seconds=min(cache_seconds, MAX_CACHE), most=MOST_CACHED, clock=clock)

    async def permitted(self, token: str, access: Access, node: str | None = None) -> PodIdentity:
        """The pod that speaks, if it may; `node` is the one it wants to speak for. A `Refusal` otherwise."""
        if not acceptable(token):
            raise invalid_pod_token()
        pod = await self._holders.of(token)
        namespace, account = self._allowed[access]
        if (pod.namespace, pod.service_account) != (namespace, account):
            raise _wrong_account(pod, namespace, account)
        if node is not None and pod.node != node:
            raise _wrong_node(pod, node)
        return pod

    async def _ask(self, token: str) -> PodIdentity:
        try:
            pod = await self._review(token, AUDIENCE)
        except (BackendError, OSError, TimeoutError) as error:
            raise _cluster_unreachable(error) from error
        if pod is None:
            raise invalid_pod_token()
        return pod


def no_pods() -> Refusal:
    """There is no cluster whose pods could speak."""
    return refusal(
        404,
        "no_pods",
        "This service does not run on Kubernetes, so no pod has anything to say here: agents and runners in pods use "
        "this route. Set SchedulerService.backend to 'kubernetes' if it should.",
    )


def invalid_pod_token() -> Refusal:
    """The cluster does not know this token, or it was not made for us."""
    return refusal(
        401,
        "invalid_pod_token",
        "The cluster does not vouch for this token as one of a pod that is alive, for the audience "
        f"{AUDIENCE!r}. Send the token that is projected into the pod for that audience; Hub tokens and tokens of "
        "jobs are not known here.",
        WWW_Authenticate='Bearer realm="jupyter-gq", error="invalid_token"',
    )


def _wrong_account(pod: PodIdentity, namespace: str, account: str) -> Refusal:
    return refusal(
        403,
        "wrong_service_account",
        f"The pod {pod.pod} runs as the service account {pod.service_account!r} in the namespace {pod.namespace!r}, "
        f"but this route is for {account!r} in {namespace!r}.",
    )


def _wrong_node(pod: PodIdentity, node: str) -> Refusal:
    if not pod.node:
        told = "does not say on which node it is (Kubernetes does that since 1.30)"
    else:
        told = f"is on the node {pod.node!r}"
    return refusal(403, "wrong_node", f"The pod {pod.pod} {told}, so it cannot report for the node {node!r}.")


def _cluster_unreachable(error: Exception) -> Refusal:
    log.warning("a pod's token could not be reviewed: %s", error)
    return refusal(
        503,
        "cluster_unreachable",
        "The cluster cannot be asked now whose token this is. Try again in a moment.",
        Retry_After="2",
    )
