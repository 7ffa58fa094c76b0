"""The tokens of pods: which pod the cluster vouches for, how long it is believed, and how often it is asked."""

import asyncio
import contextlib
from dataclasses import replace

import pytest

from jupyter_gq.api.access import Access
from jupyter_gq.api.errors import ApiRefusal
from jupyter_gq.domain.errors import NotFound
from jupyter_gq.domain.identity import PodIdentity

from .fakes import JOB_TOKEN, PODS, KnowsThesePods, Raises, authenticator, cannot_review

pytestmark = pytest.mark.asyncio

REPORT = {"probe": "OK"}
TOKEN = "api/v1/jobs/{job}/token"


async def test_without_kubernetes_there_is_nothing_for_pods(serve):
    served = await serve(Raises(AssertionError()))
    for path, body in ((TOKEN.format(job="job-1"), None), ("api/v1/agents/node-a/report", REPORT)):
        status, problem = await served.problem("POST", path, "runner", body)
        assert (status, problem["code"]) == (404, "no_pods")
        assert "does not run on Kubernetes" in problem["message"]


@pytest.mark.parametrize("token", ["unknown", "ann", "root", JOB_TOKEN, "\xe4", "x" * 5000])
async def test_what_the_cluster_does_not_vouch_for_is_no_token_of_a_pod(serve, token):
    served = await serve(Raises(AssertionError()), pods=authenticator())
    for path, body in ((TOKEN.format(job="job-1"), None), ("api/v1/agents/node-a/report", REPORT)):
        status, problem = await served.problem("POST", path, token, body)
        assert (status, problem["code"]) == (401, "invalid_pod_token")
        assert "projected" in problem["message"]


@pytest.mark.parametrize("token", ["agent", "elsewhere", "default"])
async def test_a_pod_of_another_account_or_namespace_is_no_runner(serve, token):
    served = await serve(Raises(AssertionError()), pods=authenticator())
    status, problem = await served.problem("POST", TOKEN.format(job="job-1"), token)
    assert (status, problem["code"]) == (403, "wrong_service_account")
    assert "'gq-runner' in 'train'" in problem["message"]
    assert repr(PODS[token].namespace) in problem["message"]


async def test_an_agent_speaks_for_its_own_node_only(serve):
    served = await serve(Raises(NotFound("reached")), pods=authenticator())
    assert (await served.problem("POST", "api/v1/agents/node-a/report", "agent", REPORT))[0] == 404
    for node, token, told in (("node-b", "agent", "'node-a'"), ("node-a", "nowhere", "since 1.30")):
        status, problem = await served.problem("POST", f"api/v1/agents/{node}/report", token, REPORT)
        assert (status, problem["code"]) == (403, "wrong_node")
        assert told in problem["message"]
    status, problem = await served.problem("POST", "api/v1/agents/node-a/report", "runner", REPORT)
    assert (status, problem["code"]) == (403, "wrong_service_account")


async def test_who_is_refused_stands_in_the_log_once_for_each_reason(caplog):
    pods = authenticator()
    asked = [
        ("agent", Access.AGENT, "node-b"),
        ("agent", Access.POD, None),
        ("nowhere", Access.AGENT, "node-a"),
        ("runner", Access.AGENT, "node-a"),
    ]
    for token, access, node in asked * 3:
        with pytest.raises(ApiRefusal):
            await pods.permitted_pod(token, access, node)
    for token in ("agent", "unknown"):
        with contextlib.suppress(ApiRefusal):
            await pods.permitted_pod(token, Access.AGENT, "node-a")
    assert {(record.name, record.levelname) for record in caplog.records} == {("jupyter_gq.api.pods", "WARNING")}
    assert [record.getMessage() for record in caplog.records] == [
        "pod_refused code=wrong_node pod=nodes/gq-agent-x node=node-a: "
        "The pod gq-agent-x is on the node 'node-a', so it cannot report for the node 'node-b'.",
        "pod_refused code=wrong_service_account pod=nodes/gq-agent-x node=node-a: The pod gq-agent-x runs as the "
        "service account 'gq-agent' in the namespace 'nodes', but this route is for 'gq-runner' in 'train'.",
        "pod_refused code=wrong_node pod=nodes/gq-agent-y node=: The pod gq-agent-y does not say on which node it is "
        "(Kubernetes does that since 1.30), so it cannot report for the node 'node-a'.",
        "pod_refused code=wrong_service_account pod=train/gq-job-1-1-0 node=node-a: The pod gq-job-1-1-0 runs as the "
        "service account 'gq-runner' in the namespace 'train', but this route is for 'gq-agent' in 'nodes'.",
    ]


async def test_what_stands_in_the_log_is_not_remembered_without_end(monkeypatch):
    monkeypatch.setattr("jupyter_gq.api.pods.MOST_CACHED", 2)
    pods = authenticator()
    for token in ("agent", "nowhere", "elsewhere", "default"):
        with pytest.raises(ApiRefusal):
            await pods.permitted_pod(token, Access.AGENT, "node-b")
    assert [uid for uid, _ in pods._logged] == [PODS["elsewhere"].uid, PODS["default"].uid]


async def test_without_the_api_server_pods_are_told_to_come_back_and_not_what_failed(serve):
    served = await serve(Raises(AssertionError()), pods=authenticator(cannot_review))
    response = await served.ask("POST", TOKEN.format(job="job-1"), "runner")
    assert (response.code, response.headers["Retry-After"]) == (503, "2")
    assert b'"cluster_unreachable"' in response.body
    assert b"10.0.0.1" not in response.body


async def test_of_a_runner_the_cluster_is_believed_for_a_few_seconds_and_a_refusal_not_at_all():
    now, review = [0.0], KnowsThesePods(**PODS)
    pods = authenticator(review, clock=lambda: now[0])
    await asyncio.gather(*(pods.permitted_pod("runner", Access.POD) for _ in range(5)))
    now[0] = 4.9
    assert (await pods.permitted_pod("runner", Access.POD)).pod == "gq-job-1-1-0"
    assert review.asked == ["runner"]
    del review.pods["runner"]
    now[0] = 5.0
    for _ in range(2):
        with pytest.raises(ApiRefusal):
            await pods.permitted_pod("runner", Access.POD)
    assert review.asked == ["runner"] * 3


#: By the clock of the machine.
BEGAN = 1_800_000_000.0


class AgentsReport:
    """Agents whose tokens end after `life` seconds report every five seconds; the cluster can be sent away."""

    def __init__(self, *tokens: str, life: float | None = 36_000.0) -> None:
        expires = None if life is None else BEGAN + life
        vouched = {token: replace(PODS["agent"], uid=token, expires=expires) for token in tokens}
        self.review, self.at, self.away = KnowsThesePods(**vouched), 0.0, False
        self.asked_at: list[float] = []
        self.pods = authenticator(self._review, clock=lambda: self.at, now=lambda: BEGAN + self.at)

    async def _review(self, token: str, audience: str) -> PodIdentity | None:
        self.asked_at.append(self.at)
        return await (cannot_review if self.away else self.review)(token, audience)

    async def until(self, end: float) -> list[int]:
        """Report up to that moment, and return the refusals."""
        refusals = []
        while self.at < end:
            for token in self.review.pods if not refusals else ():
                try:
                    await self.pods.permitted_pod(token, Access.AGENT, "node-a")
                except ApiRefusal as refused:
                    refusals.append(refused.status)
            for _ in range(3):
                await asyncio.sleep(0)  # what is renewed is renewed by then
            self.at += 5
        return refusals


async def test_of_five_hundred_agents_the_cluster_is_asked_less_than_five_times_a_second():
    agents = AgentsReport(*(f"agent-{number}" for number in range(100)))
    assert await agents.until(1200) == []
    assert len([at for at in agents.asked_at if at < 60]) == 100, "each once"
    for minute in range(60, 1200, 60):
        asked = len([at for at in agents.asked_at if minute <= at < minute + 60])
        assert asked <= 60, f"{asked} in the minute after {minute} s, as if all came at once"


async def test_the_token_of_an_agent_that_is_gone_is_dead_after_five_minutes_at_the_most():
    agents = AgentsReport("agent")
    assert await agents.until(100) == []
    agents.review.pods["agent"] = None
    assert await agents.until(300) == [401]


async def test_a_token_is_believed_no_longer_than_it_lives_by_its_own_word():
    agents = AgentsReport("agent", life=60.0)
    assert await agents.until(10) == []
    agents.away = True
    assert await agents.until(60) == []
    agents.at = 60.0
    assert await agents.until(65) == [503]


async def test_a_token_that_names_no_end_is_believed_briefly():
    agents = AgentsReport("agent", life=None)
    await agents.until(60)
    assert len(agents.asked_at) == 12


async def test_while_the_cluster_cannot_be_asked_agents_are_heard_for_an_hour_and_not_for_ever(caplog):
    caplog.set_level("INFO", "jupyter_gq.api.pods")
    agents = AgentsReport("agent")
    assert await agents.until(100) == []
    agents.away = True
    agents.asked_at.clear()
    assert await agents.until(3600) == []
    assert 100 < len(agents.asked_at) < 130, "twice a minute, so that it is known when the cluster is back"
    assert await agents.until(3610) == [503]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1, "once"
    assert told[0].startswith("tokens of pods cannot be reviewed: the API server does not answer")


async def test_what_the_cluster_says_when_it_is_back_counts_at_once():
    agents = AgentsReport("agent")
    assert await agents.until(10) == []
    agents.away = True
    assert await agents.until(1000) == []
    agents.away, agents.review.pods["agent"] = False, None
    assert await agents.until(1040) == [401]


async def test_a_runner_is_not_believed_while_the_cluster_cannot_be_asked():
    agents = AgentsReport("agent")
    agents.review.pods["runner"] = replace(PODS["runner"], expires=BEGAN + 3600)
    await agents.pods.permitted_pod("runner", Access.POD)
    agents.away, agents.at = True, 4.9
    await agents.pods.permitted_pod("runner", Access.POD)
    agents.at = 5.0
    with pytest.raises(ApiRefusal) as refused:
        await agents.pods.permitted_pod("runner", Access.POD)
    assert refused.value.status == 503
