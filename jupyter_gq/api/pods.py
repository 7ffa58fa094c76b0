"""The pods behind service-account tokens, as the cluster names them, and the routes that each pod may call.

Rules
-----
- Audience: a token must be made for the audience of this service. A token for the API server, or for another audience,
  is invalid.
- Own name only: an agent speaks for the node that its token names, and for no other. A job's runner speaks only as the
  pod that it is.
- Lifetimes: the cluster's answer for a runner is cached for a few seconds, because a runner comes once. The answer for
  an agent is cached for minutes, because agents come every few seconds, and longer while the cluster cannot be asked.
  No answer outlives the end that its token names, and no failure to ask is remembered.

See docs/decisions/0049-trust-reviewed-agent-tokens-for-minutes.md.
"""

import logging
from collections.abc import Awaitable, Callable

from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.identity import PodIdentity

from .access import Access
from .errors import ApiRefusal, refusal
from .token_cache import CachePolicy, TokenCache, has_token_form

log = logging.getLogger(__name__)

AUDIENCE = "jupyter-gq"
#: The service accounts of the agents' pods and of the runners' pods.
AGENT_ACCOUNT, RUNNER_ACCOUNT = "gq-agent", "gq-runner"
#: The longest time, in seconds, for which the end of a runner's pod goes unnoticed. Also the lifetime of the answer for
#: a token that does not say when it ends.
SHORT_LIFETIME = 5.0
#: With the policy for agents, the cluster is asked three times a second about 500 agents.
RUNNER_TOKENS = CachePolicy(lifetime=SHORT_LIFETIME)
AGENT_TOKENS = CachePolicy(lifetime=300.0, renew_after=0.8, spread=0.4, outage_lifetime=3600.0, retry_pause=30.0)
MOST_CACHED = 4096

#: Asks the cluster for the pod of a token with an audience; None = no pod's. Raises `BackendError` if it cannot ask.
Review = Callable[[str, str], Awaitable[PodIdentity | None]]


class PodAuthenticator:
    """An authenticator that finds the pod of a token, and checks whether the pod may call a route."""

    def __init__(
        self,
        review: Review,
        *,
        nodes_namespace: str,
        training_namespace: str,
        clock: Callable[[], float] | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        """Permit agents in the namespace `nodes_namespace` and runners in `training_namespace`.

        `review` is `Cluster.review_token`. `clock` counts seconds for the caches. `now` tells the time in seconds since
        the epoch, for the end that a token names.
        """
        self._review, self._now = review, now or SystemClock().now
        self._allowed = {
            Access.AGENT: (nodes_namespace, AGENT_ACCOUNT),
            Access.POD: (training_namespace, RUNNER_ACCOUNT),
        }
        #: One cache for each purpose: an answer for one purpose says nothing about another.
        self._caches = {
            access: TokenCache(self._ask, policy, most=MOST_CACHED, seconds_left=self._seconds_left, clock=clock)
            for access, policy in ((Access.AGENT, AGENT_TOKENS), (Access.POD, RUNNER_TOKENS))
        }
        #: Refusals that were logged, by the uid of the pod and the code, oldest first.
        self._logged: dict[tuple[str, str], None] = {}
        #: The last question to the cluster failed.
        self._is_away = False

    async def permitted_pod(
        self, token: str, access: Access, node: str | None = None, *, peer: str = ""
    ) -> PodIdentity:
        """Return the pod of the token, if the pod may call routes of this access and report for the node `node`.

        With `node` None, the pod may be on any node. New tokens from one address `peer` are looked up in turns. Raises
        an `ApiRefusal`: 401 for an invalid token, 403 for another service account or node, and 503 if the cluster
        cannot be asked, or if no turn comes in time. Refusals of 403 are logged.
        """
        if not has_token_form(token):
            raise invalid_pod_token()
        pod = await self._caches[access].find_holder(token, peer)
        namespace, account = self._allowed[access]
        if (pod.namespace, pod.service_account) != (namespace, account):
            raise self._log_once(pod, _wrong_account(pod, namespace, account))
        if node is not None and pod.node != node:
            raise self._log_once(pod, _wrong_node(pod, node))
        return pod

    def _log_once(self, pod: PodIdentity, refused: ApiRefusal) -> ApiRefusal:
        """Log a refusal as a warning, once for each pod and code, and return the refusal.

        Administrators read the log of this service, not the log of the pod.
        """
        code, sentence = refused.problem.code, refused.problem.message
        if (pod.uid, code) not in self._logged:
            self._logged[pod.uid, code] = None
            fields = {"code": code, "pod": f"{pod.namespace}/{pod.pod}", "node": pod.node}
            log.warning("pod_refused code=%s pod=%s node=%s: %s", *fields.values(), sentence, extra=fields)
            if len(self._logged) > MOST_CACHED:
                del self._logged[next(iter(self._logged))]
        return refused

    async def _ask(self, token: str) -> PodIdentity:
        """Ask the cluster for the pod of a token; log the beginning and the end of an outage of the cluster.

        Raises an `ApiRefusal` of 401 if the token is no pod's, and of 503 if the cluster cannot be asked.
        """
        try:
            pod = await self._review(token, AUDIENCE)
        except (BackendError, OSError, TimeoutError) as error:
            if not self._is_away:
                log.warning("tokens of pods cannot be reviewed: %s", error)
            self._is_away = True
            raise _cluster_unreachable() from error
        if self._is_away:
            log.info("tokens of pods are reviewed again")
        self._is_away = False
        if pod is None:
            raise invalid_pod_token()
        return pod

    def _seconds_left(self, pod: PodIdentity) -> float:
        return SHORT_LIFETIME if pod.expires is None else pod.expires - self._now()


def no_pods() -> ApiRefusal:
    """Return the refusal of 404 for a route of pods, from a service without a cluster."""
    return refusal(
        404,
        "no_pods",
        "This service does not run on Kubernetes, so this route, which agents and runners in pods use, does nothing "
        "here. Set SchedulerService.backend to 'kubernetes' if pods should use it.",
    )


def invalid_pod_token() -> ApiRefusal:
    """Return the refusal of 401 for a token that the cluster does not know or that has another audience."""
    return refusal(
        401,
        "invalid_pod_token",
        "The cluster does not vouch for this token as one of a pod that is alive, for the audience "
        f"{AUDIENCE!r}. Send the token that is projected into the pod for that audience; Hub tokens and tokens of "
        "jobs are not known here.",
        WWW_Authenticate='Bearer realm="jupyter-gq", error="invalid_token"',
    )


def _wrong_account(pod: PodIdentity, namespace: str, account: str) -> ApiRefusal:
    """Return the refusal of 403 for a pod that runs as another service account than the route demands."""
    return refusal(
        403,
        "wrong_service_account",
        f"The pod {pod.pod} runs as the service account {pod.service_account!r} in the namespace {pod.namespace!r}, "
        f"but this route is for {account!r} in {namespace!r}.",
    )


def _wrong_node(pod: PodIdentity, node: str) -> ApiRefusal:
    """Return the refusal of 403 for an agent that reports for the node `node` and is on another or unknown node."""
    if not pod.node:
        told = "does not say on which node it is (Kubernetes does that since 1.30)"
    else:
        told = f"is on the node {pod.node!r}"
    return refusal(403, "wrong_node", f"The pod {pod.pod} {told}, so it cannot report for the node {node!r}.")


def _cluster_unreachable() -> ApiRefusal:
    """Return the refusal of 503 for a token that cannot be checked, because the cluster does not answer."""
    return refusal(
        503,
        "cluster_unreachable",
        "The cluster cannot be asked now whose token this is. Try again in a moment.",
        Retry_After="2",
    )
