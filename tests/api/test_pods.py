"""Pods and agents: what the token of a task opens for the present run, and the orders of agents."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from jupyter_gq.backends.capabilities import Attestation, AttestationResult
from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.agents import AgentCommand, AgentOrders
from jupyter_gq.client.models import TicketRequest
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.settings.config import build_settings
from jupyter_gq.domain.amount import MilliGpu
from jupyter_gq.domain.share_level import ShareLevel
from jupyter_gq.store.sql import SqlStore
from tests.fakes import FixedClock, FixedSettings, RunsPods, SharedBundles, a_node, counting
from tests.patience import scaled

from .conftest import Served
from .fakes import PODS, authenticator
from .world import CONFIG, World, submission

pytestmark = pytest.mark.asyncio

ANN = Caller(user="ann", groups=frozenset({"vision"}), admin=False)
REPORT = {"probe": "OK"}
TOKEN = "api/v1/jobs/{job}/token"


@dataclass
class Cluster:
    """A service whose tasks are pods."""

    controller: Controller
    machine: RunsPods
    bundles: SharedBundles
    store: SqlStore
    clock: FixedClock
    settings: FixedSettings
    served: Served | None = None

    def send(self, bundle: dict[str, Any], **changes: Any) -> str:
        return self.controller.jobs.submit(ANN, submission(bundle, **changes), None)[0].id

    async def steps(self, count: int = 3) -> None:
        for _ in range(count):
            await self.controller.step()

    def is_task(self, job: str, run: int, **tasks: int) -> None:
        """These pods are the tasks of that run."""
        for name, task in tasks.items():
            self.machine.pods[(job, run, PODS[name].uid)] = task

    async def exchange(self, job: str, pod: str = "runner") -> dict[str, Any]:
        response = await self.served.ask("POST", TOKEN.format(job=job), pod)
        assert response.code == 200, response.body
        return json.loads(response.body)

    async def beat(self, job: str, token: str) -> int:
        return (await self.served.ask("POST", f"api/v1/jobs/{job}/heartbeat", token, {"run": 1})).code


@pytest_asyncio.fixture
async def cluster(serve, tmp_path):
    clock, nodes = FixedClock(), (a_node(2, name="node-a"),)
    machine, bundles = RunsPods(clock, nodes), SharedBundles()
    store = SqlStore(f"sqlite:///{tmp_path / 'service.sqlite'}")
    settings = FixedSettings(build_settings(CONFIG, nodes))
    controller = Controller(
        store=store,
        backends=(machine,),
        settings=settings,
        clock=clock,
        bundles=bundles,
        new_id=counting(),
        new_token=counting("token-"),
        check_invariants=True,
    )
    made = Cluster(controller, machine, bundles, store, clock, settings)
    made.served = await serve(controller, pods=authenticator())
    yield made
    store.close()


# --- the token of a task


async def test_a_pod_of_the_present_run_gets_a_token_with_which_it_delivers(cluster, bundle):
    job = cluster.send(bundle)
    await cluster.steps()
    cluster.is_task(job, 1, runner=0)
    given = await cluster.exchange(job)
    assert {name: given[name] for name in ("run", "task", "last_seq")} == {"run": 1, "task": 0, "last_seq": 0}
    assert await cluster.beat(job, given["token"]) == 204
    assert given["token"] not in repr(cluster.store.get(job))
    again = await cluster.exchange(job)
    assert [await cluster.beat(job, each["token"]) for each in (given, again)] == [401, 204]


async def test_a_pod_that_is_no_task_of_the_present_run_gets_none(cluster, bundle):
    job, other = cluster.send(bundle, gpus="0.25"), cluster.send(bundle, gpus="0.25")
    await cluster.steps()
    cluster.is_task(job, 1, runner=0)
    cluster.is_task(other, 1, stranger=0)
    status, problem = await cluster.served.problem("POST", TOKEN.format(job=job), "stranger")
    assert (status, problem["code"]) == (403, "not_this_run")
    assert f"no task of run 1 of the job {job}" in problem["message"]
    given = await cluster.exchange(job)
    assert await cluster.beat(other, given["token"]) == 401
    assert (await cluster.served.problem("POST", TOKEN.format(job="job-none"), "runner"))[0] == 404


async def test_a_run_that_has_ended_takes_its_token_with_it(cluster, bundle):
    job = cluster.send(bundle)
    await cluster.steps()
    cluster.is_task(job, 1, runner=0)
    first = await cluster.exchange(job)
    cluster.machine.end(job, Outcome.LOST)
    await cluster.steps()
    assert cluster.controller.jobs.show(ANN, job).run == 2
    assert await cluster.beat(job, first["token"]) == 401
    assert (await cluster.served.problem("POST", TOKEN.format(job=job), "runner"))[0] == 403
    cluster.is_task(job, 2, second=0)
    assert (await cluster.exchange(job, "second"))["run"] == 2
    cluster.machine.end(job)
    await cluster.steps()
    status, problem = await cluster.served.problem("POST", TOKEN.format(job=job), "second")
    assert (status, problem["code"]) == (404, "not_found")
    assert "it has ended" in problem["message"]


async def test_a_pod_that_joins_with_the_number_of_one_that_left_gets_a_token_and_continues_its_log(cluster, bundle):
    job = cluster.send(bundle, tasks=2)
    await cluster.steps()
    cluster.is_task(job, 1, runner=1)
    first = await cluster.exchange(job)
    assert first["log_start"] == 0
    await cluster.served.ask("GET", f"api/v1/jobs/{job}/bundle", first["token"])
    cluster.bundles.logs[job] = "left\n"
    status, problem = await cluster.served.problem("POST", TOKEN.format(job=job), "runner")
    assert (status, problem["code"]) == (409, "conflict"), "the same pod gets one token"
    cluster.machine.pods.clear()
    cluster.is_task(job, 1, second=1)
    given = await cluster.exchange(job, "second")
    assert (given["task"], given["log_start"]) == (1, 5)
    size = await cluster.served.ask("GET", f"api/v1/jobs/{job}/size", given["token"])
    assert json.loads(size.body) == {"tasks": [1], "least": 2, "most": 2}
    assert (await cluster.served.ask("GET", f"api/v1/jobs/{job}/size", first["token"])).code == 401
    await cluster.served.ask("GET", f"api/v1/jobs/{job}/bundle", given["token"])
    assert (await cluster.served.problem("POST", TOKEN.format(job=job), "second"))[0] == 409


async def test_between_two_runs_nobody_speaks_for_a_job(cluster, bundle):
    job = cluster.send(bundle, gpus="1")
    await cluster.steps()
    cluster.is_task(job, 1, runner=0)
    given = await cluster.exchange(job)
    cluster.machine.end(job, Outcome.LOST)
    cluster.machine.lose_devices()
    await cluster.steps(1)
    assert cluster.controller.jobs.show(ANN, job).phase == "paused"
    assert await cluster.beat(job, given["token"]) == 401


async def test_each_task_of_a_gang_has_its_own_token_and_the_first_speaks(cluster, bundle):
    job = cluster.send(bundle, gpus="0.25", tasks=2)
    await cluster.steps()
    cluster.is_task(job, 1, runner=0, second=1)
    first, second = await cluster.exchange(job, "runner"), await cluster.exchange(job, "second")
    assert (first["task"], second["task"]) == (0, 1)
    assert [await cluster.beat(job, each["token"]) for each in (first, second)] == [204, 403]
    status, problem = await cluster.served.problem(
        "POST", f"api/v1/jobs/{job}/outputs", second["token"], {"events": []}
    )
    assert (status, problem["code"]) == (403, "not_the_first_task")
    assert second["token"] not in repr(cluster.store.get(job))
    cluster.machine.end(job, Outcome.LOST)
    await cluster.steps()
    assert cluster.controller.pods.find_task(job, second["token"]) is None


async def test_with_its_bundle_a_task_has_had_its_token(cluster, bundle):
    job = cluster.send(bundle, gpus="0.25", tasks=2)
    await cluster.steps()
    cluster.is_task(job, 1, runner=0, second=1)
    given = await cluster.exchange(job)
    for _ in range(2):
        response = await cluster.served.ask("GET", f"api/v1/jobs/{job}/bundle", given["token"])
        assert response.code == 200
    fetched = json.loads(response.body)
    assert fetched.pop("executed") is None
    assert fetched == cluster.bundles.kept[job]
    status, problem = await cluster.served.problem("POST", TOKEN.format(job=job), "runner")
    assert (status, problem["code"]) == (409, "conflict")
    assert "given out once" in problem["message"]
    assert (await cluster.exchange(job, "second"))["task"] == 1
    assert await cluster.beat(job, given["token"]) == 204
    cluster.machine.end(job, Outcome.LOST)
    await cluster.steps()
    cluster.is_task(job, 2, runner=0)
    cluster.bundles.executed[job] = {"cells": ["as far as it came"]}
    given = await cluster.exchange(job)
    response = await cluster.served.ask("GET", f"api/v1/jobs/{job}/bundle", given["token"])
    assert json.loads(response.body)["executed"] == {"cells": ["as far as it came"]}


async def test_task_is_told_as_soon_as_its_devices_were_checked(cluster, bundle):
    job = cluster.send(bundle)
    await cluster.steps()
    cluster.is_task(job, 1, runner=0)
    token = (await cluster.exchange(job))["token"]

    async def seen(wait):
        response = await cluster.served.ask("GET", f"api/v1/jobs/{job}/devices?wait={wait}", token)
        assert response.code == 200, response.body
        return json.loads(response.body)

    cluster.machine.seen[job, 1, 0] = Attestation(
        result=AttestationResult.UNCHECKED, required=True, sentence="No agent has checked it."
    )
    assert await seen(0) == {"result": "UNCHECKED", "required": True, "sentence": "No agent has checked it."}
    async with asyncio.timeout(scaled(20)):
        waiting = asyncio.create_task(seen(25))
        await cluster.steps()
        assert not waiting.done()
        cluster.machine.seen[job, 1, 0] = Attestation(
            result=AttestationResult.RIGHT, required=True, sentence="Its own."
        )
        cluster.controller.wake()
        assert (await waiting)["result"] == "RIGHT"
    cluster.machine.seen[job, 1, 0] = Attestation(
        result=AttestationResult.UNWATCHED, required=False, sentence="No agent reports."
    )
    assert (await seen(25))["result"] == "UNWATCHED", "no check is required, so the answer comes at once"
    cluster.machine.end(job, Outcome.SUCCEEDED)
    await cluster.steps()
    assert (await cluster.served.ask("GET", f"api/v1/jobs/{job}/devices", token)).code in (401, 403)


async def test_a_server_hears_what_was_seen_of_its_own_devices_while_it_has_some(cluster):
    ticket, _ = cluster.controller.tickets.open(ANN, TicketRequest(gpus="0.25"))
    path = f"api/v1/tickets/{ticket.id}/devices?wait=25"
    assert (await cluster.served.problem("GET", path, "ann"))[0] == 409, "nothing of it runs yet"
    await cluster.steps()
    cluster.machine.seen[ticket.id, 1, 0] = Attestation(
        result=AttestationResult.UNCHECKED, required=True, sentence="No agent has checked it."
    )
    async with asyncio.timeout(scaled(20)):
        waiting = asyncio.create_task(cluster.served.ask("GET", path, "ann-reads"))
        await cluster.steps()
        assert not waiting.done()
        cluster.machine.seen[ticket.id, 1, 0] = Attestation(
            result=AttestationResult.WRONG, required=True, sentence="It sees others."
        )
        cluster.controller.wake()
        assert json.loads((await waiting).body) == {"result": "WRONG", "required": True, "sentence": "It sees others."}
    assert (await cluster.served.problem("GET", path, "bob"))[0] == 404, "the job is not this pod's"
    cluster.machine.end(ticket.id, Outcome.SUCCEEDED)
    await cluster.steps()
    status, problem = await cluster.served.problem("GET", path, "ann")
    assert (status, problem["message"]) == (409, "This ticket has ended; ask for a new one.")


async def test_numbers_go_on_where_the_run_before_ended(cluster, bundle):
    job = cluster.send(bundle)
    await cluster.steps()
    cluster.controller.jobs.append_outputs(job, [{"seq": seq, "op": "run", "state": "start"} for seq in (1, 2, 3)])
    cluster.is_task(job, 1, runner=0)
    assert (await cluster.exchange(job))["last_seq"] == 3


async def test_a_log_is_kept_up_to_its_limit(cluster, bundle):
    job = cluster.send(bundle)
    await cluster.steps()
    cluster.is_task(job, 1, runner=0)
    token, path = (await cluster.exchange(job))["token"], f"api/v1/jobs/{job}/log"
    assert (await cluster.served.ask("PUT", path, token, "epoch 1 ä\n".encode() + b"\xff")).code == 204
    assert cluster.controller.jobs.read_log(ANN, job) == "epoch 1 ä\n\ufffd"
    assert (await cluster.served.problem("PUT", path, token, b"x" * (256 * 1024 + 1)))[0] == 413
    assert (await cluster.served.problem("PUT", path, "runner", b"x"))[0] == 401


async def test_no_byte_of_a_log_has_a_number_that_readers_cannot_count(cluster, bundle):
    job = cluster.send(bundle)
    await cluster.steps()
    cluster.is_task(job, 1, runner=0)
    token, path = (await cluster.exchange(job))["token"], f"api/v1/jobs/{job}/log"
    status, problem = await cluster.served.problem("PUT", f"{path}?start={2**53 - 1}", token, b"end")
    assert (status, problem["field"]) == (422, "start")


async def test_where_runs_are_processes_nothing_is_exchanged(serve, tmp_path, bundle):
    world = World(tmp_path)
    job = world.controller.jobs.submit(ANN, submission(bundle), None)[0].id
    await world.steps()
    served = await serve(world.controller, pods=authenticator())
    token = world.job_token(job)
    for given in (
        ("POST", TOKEN.format(job=job), "runner"),
        ("GET", f"api/v1/jobs/{job}/bundle", token),
        ("PUT", f"api/v1/jobs/{job}/log", token, b"x"),
        ("POST", "api/v1/agents/node-a/report", "agent", REPORT),
    ):
        assert (await served.problem(*given))[0] == 404
    world.close()


async def test_a_job_remembers_the_image_of_the_notebook_it_was_sent_from(cluster, bundle):
    ticket, _ = cluster.controller.tickets.open(ANN, TicketRequest(server="", gpus="0.25"))
    await cluster.steps()
    cluster.machine.images[ticket.id] = "lab@sha256:1"
    assert cluster.store.get(cluster.send(bundle, gpus="0.25")).detail.image == "lab@sha256:1"
    bundle["manifest"]["server"] = "other"
    assert cluster.store.get(cluster.send(bundle, gpus="0.25")).detail.image == ""


async def test_a_job_runs_in_the_image_that_its_owner_chose_of_those_on_offer(cluster, bundle):
    cluster.settings.change(images={"PyTorch 2.9": "torch:2.9", "JAX": "jax:1"})
    served = cluster.served
    me = json.loads((await served.ask("GET", "api/v1/me")).body)
    assert me["images"] == ["PyTorch 2.9", "JAX"]
    document = submission(bundle, software="JAX", gpus="0.25").model_dump()
    answer = await served.ask("POST", "api/v1/jobs", body=document)
    assert (answer.code, json.loads(answer.body)["software"]) == (201, "JAX")
    detail = cluster.store.get(json.loads(answer.body)["id"]).detail
    assert (detail.image, detail.software) == ("jax:1", "JAX")

    wrong = {**document, "software": "root/kit"}
    for path, body in (("jobs", wrong), ("jobs/preview", {"queue": "vision", "software": "root/kit"})):
        status, problem = await served.problem("POST", f"api/v1/{path}", "ann", body)
        assert (status, problem["code"], problem["field"]) == (422, "unknown_software", "software")
        assert "'root/kit'. Offered are: PyTorch 2.9, JAX." in problem["message"]
    kernel = document["bundle"]["manifest"]["kernel"]["name"]
    answer = await served.ask("POST", "api/v1/jobs", body={**document, "software": kernel})
    assert (answer.code, json.loads(answer.body)["software"]) == (201, kernel), "its bundle brings that kernel"


# --- agents


async def report(cluster: Cluster, wait: int = 0) -> AgentOrders:
    response = await cluster.served.ask("POST", f"api/v1/agents/node-a/report?wait={wait}", "agent", REPORT)
    assert response.code == 200, response.body
    return AgentOrders.model_validate_json(response.body)


async def test_an_agent_gets_its_orders(cluster):
    cluster.machine.told["node-a"] = AgentOrders(report_every=1.5)
    assert await report(cluster) == AgentOrders(report_every=1.5)
    (node, heard) = cluster.machine.heard[-1]
    assert (node, heard.probe) == ("node-a", "OK")


async def test_an_agent_that_waits_is_answered_as_soon_as_its_orders_change(cluster):
    async with asyncio.timeout(scaled(20)):
        assert await report(cluster, wait=25) == AgentOrders()  # nothing was told before
        waiting = asyncio.create_task(report(cluster, wait=25))
        while len(cluster.machine.heard) < 2:
            await asyncio.sleep(0.01)
        await cluster.steps()
        assert not waiting.done(), "nothing changed for it"
        changed = AgentOrders(commands=[AgentCommand(id="c1", kind="kill", pod_uid="u")])
        cluster.machine.told["node-a"] = changed
        cluster.controller.wake()
        assert await waiting == changed
        assert len(cluster.machine.heard) == 2, "a report is heard once"


async def test_waiting_is_bounded(cluster):
    await report(cluster)
    assert await report(cluster, wait=1) == AgentOrders()
    status, problem = await cluster.served.problem("POST", "api/v1/agents/node-a/report?wait=26", "agent", REPORT)
    assert (status, problem["field"]) == (422, "wait")


# --- how strongly a share is enforced


@pytest.mark.parametrize(("gpus", "shown"), [("0.25", "intercept"), ("1", "hardware"), ("0", "none")])
async def test_a_notebook_shows_how_strongly_the_shares_of_its_pool_are_enforced(cluster, gpus, shown):
    cluster.machine.levels = {"build": ShareLevel.INTERCEPT}
    cluster.controller._context.settings_source.change(user_quotas={"ann": MilliGpu(1000)})
    ticket = cluster.controller.tickets.open(ANN, TicketRequest(server="", gpus=gpus))[0]
    for _ in range(2):
        (notebook,) = cluster.controller.tickets.list_notebooks(ANN).notebooks
        assert (notebook.id, notebook.enforcement) == (ticket.id, shown)
        await cluster.steps()
