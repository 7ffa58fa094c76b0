"""The Kubernetes backend orders suspensions of the agents, and says of each share how far it is or why it stays."""

import asyncio
from dataclasses import replace

import pytest
import pytest_asyncio

from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.pod_pool import Hold
from jupyter_gq.domain.states import State

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend("n1", "n2")
    yield made
    await made.close()


class Notebook:
    """A notebook that runs on a part of a device of n1."""

    def __init__(self, paper, state=State.RUNNING):
        self.paper, self.state = paper, state

    async def start(self, slot="n1/0", device="GPU-0", gpus="0.25"):
        workload = await self.paper.launch("nb", "a", slot, state=self.state, gpus=gpus)
        self.key = (workload.id, workload.run)
        self.uid = self.paper.pod(workload.id, slot, device)
        self.paper.report(shares={self.uid: {}})
        await self.seen()
        return self

    @property
    def port(self):
        return self.paper.runs.capabilities.suspension

    async def seen(self):
        return await self.paper.observed(self.key[0])

    async def share(self):
        return (await self.seen()).share

    def told(self, phase="IN_USE", node="n1", missing=None, **suspension):
        """The agent reports this of the share; returns the orders for it."""
        shares = {self.uid: {"suspension": {"phase": phase, **suspension}}}
        return self.paper.report(node, shares=shares, missing=missing or {}).shares

    def order(self):
        (order,) = self.paper.runs.capabilities.agent_reports.orders("n1").shares
        return order


@pytest_asyncio.fixture
async def notebook(paper):
    return await Notebook(paper).start()


async def test_share_is_unknown_until_its_agent_tells_of_it(notebook):
    assert await notebook.share() is None
    assert (notebook.order().want, notebook.order().known) == (None, "IN_USE")
    notebook.told()
    assert (await notebook.share()).phase is SharePhase.IN_USE


async def test_suspension_is_ordered_until_the_agent_has_begun_it(notebook):
    notebook.told()
    notebook.port.suspend(*notebook.key)
    notebook.port.suspend(*notebook.key)
    order = notebook.order()
    assert (order.pod_uid, order.device, order.want, order.valid_for) == (notebook.uid, "GPU-0", "suspended", 15)
    assert notebook.told()[0] == order, "the agent has not begun it yet"
    (after,) = notebook.told("SUSPENDING", attempt=order.attempt)
    assert (after.want, after.known) == (None, "SUSPENDING")
    notebook.told("SUSPENDED", attempt=order.attempt, memory_mib=700, seconds=2.5)
    share = await notebook.share()
    assert (share.phase, share.memory, share.seconds, share.failure) == (SharePhase.SUSPENDED, MiB(700), 2.5, "")


async def test_failure_counts_from_the_moment_at_which_it_is_told(notebook):
    notebook.told()
    notebook.port.suspend(*notebook.key)
    first = notebook.order().attempt
    notebook.paper.day.at += 5
    notebook.told(attempt=first, failure="It is busy.")
    share = await notebook.share()
    assert (share.phase, share.failure, share.failed_at) == (SharePhase.IN_USE, "It is busy.", 1_000_005.0)
    notebook.paper.day.at += 60
    notebook.told(attempt=first, failure="It is busy.")
    assert (await notebook.share()).failed_at == 1_000_005.0, "the same failure, told again"
    notebook.port.suspend(*notebook.key)
    second = notebook.order().attempt
    assert second != first
    notebook.told(attempt=second, failure="It is busy.")
    assert (await notebook.share()).failed_at == 1_000_065.0


async def test_order_that_the_controller_does_not_repeat_is_withdrawn(notebook):
    """The notebook was used before the agent had the order."""
    notebook.told()
    notebook.port.suspend(*notebook.key)
    attempt = notebook.order().attempt
    await notebook.seen()
    notebook.port.suspend(*notebook.key)
    await notebook.seen()
    assert (notebook.order().want, notebook.order().attempt) == ("suspended", attempt)
    await notebook.seen()
    assert notebook.order().want is None
    assert (await notebook.share()).failure == ""
    notebook.port.suspend(*notebook.key)
    assert notebook.order().attempt != attempt, "another attempt"


async def test_order_that_no_agent_begins_is_withdrawn_and_has_failed(notebook):
    notebook.told()
    notebook.port.suspend(*notebook.key)
    notebook.paper.clock.at += 14
    assert (await notebook.share()).failure == ""
    notebook.port.suspend(*notebook.key)
    notebook.paper.clock.at += 2
    assert "did not begin to suspend the share within 15 seconds" in (await notebook.share()).failure
    assert notebook.order().want is None


async def test_order_that_is_too_old_is_not_given_while_the_backend_cannot_be_observed(notebook):
    """While the API server is away, the controller withdraws nothing, and the notebook may be used meanwhile."""
    notebook.told()
    notebook.port.suspend(*notebook.key)
    notebook.paper.clock.at += 15
    assert notebook.told()[0].want == "suspended"
    notebook.paper.clock.at += 0.1
    assert notebook.order().want is None
    assert notebook.told()[0].want is None
    assert "did not begin to suspend the share within 15 seconds" in (await notebook.share()).failure


async def test_share_is_ordered_back_however_old_the_order_is(notebook):
    notebook.told("SUSPENDED")
    notebook.port.resume(*notebook.key)
    notebook.paper.clock.at += 3600
    assert notebook.order().want == "in_use"


async def test_share_is_ordered_back_until_it_is_in_use(notebook):
    notebook.told("SUSPENDED")
    notebook.port.resume(*notebook.key, ("n1/0",))
    assert notebook.order().want == "in_use"
    assert notebook.told("RESUMING")[0].want == "in_use"
    assert notebook.told("SUSPENDED", failure="No room yet.")[0].want == "in_use"
    assert notebook.told("IN_USE")[0].want is None
    notebook.port.resume(*notebook.key)
    assert notebook.order().want is None, "it is in use"


@pytest.mark.parametrize("state", [State.SUSPENDED, State.RESUMING])
async def test_service_that_has_just_started_changes_nothing(paper, state):
    notebook = await Notebook(paper, state).start()
    assert (notebook.order().want, notebook.order().known) == (None, state.value)
    assert await notebook.share() is None, "the agent has not told anything yet"
    notebook.told("SUSPENDED", memory_mib=700)
    assert (await notebook.share()).phase is SharePhase.SUSPENDED


async def test_share_is_unknown_while_its_agent_is_silent(notebook):
    notebook.told("SUSPENDED")
    notebook.paper.clock.at += 61
    seen = await notebook.seen()
    assert seen.share is None
    assert "cannot come back at present. The agent of the node n1 has been silent" in seen.sentence


async def test_agent_of_another_node_does_not_speak_for_the_share(notebook):
    notebook.told("SUSPENDED", node="n2")
    assert await notebook.share() is None
    assert notebook.paper.runs.capabilities.agent_reports.orders("n2").shares == []


async def test_agent_that_may_not_suspend_is_the_reason(notebook):
    notebook.told()
    assert notebook.port.describe_refusal(*notebook.key) == ""
    notebook.told(missing={"suspend": "Set agent.suspend."})
    assert notebook.port.describe_refusal(*notebook.key) == "n1: Set agent.suspend."
    notebook.told(refusal="It uses managed memory.")
    assert notebook.port.describe_refusal(*notebook.key) == "It uses managed memory."


async def test_agent_that_cannot_suspend_gets_no_orders_that_it_may_not_know(notebook):
    notebook.paper.runs.share_orders.limit = lambda: MiB(2048)
    (watched,) = notebook.paper.report(missing={"suspend": "This version cannot."}).watch
    orders = notebook.paper.runs.capabilities.agent_reports.orders("n1")
    assert watched.pod_uid == notebook.uid
    assert (orders.shares, orders.suspended_memory_mib) == ([], None)


async def test_owner_is_told_what_the_agent_says_is_wrong(notebook):
    notebook.told("SUSPENDED", trouble="The GPU driver takes unusually long.")
    assert (await notebook.seen()).sentence == "The GPU driver takes unusually long."


async def test_owner_is_told_that_the_agent_cannot_finish_what_an_earlier_one_began(notebook):
    notebook.paper.report(shares={notebook.uid: {"trouble": "It is tried again."}})
    assert (await notebook.seen()).sentence == "It is tried again."
    notebook.told()
    assert (await notebook.seen()).sentence == ""


async def test_owner_is_not_told_what_the_agent_counts_of_all_shares(notebook):
    notebook.paper.report(shares={notebook.uid: {}}, missing={"recovery": "One share stands still."})
    assert (await notebook.seen()).sentence == ""


async def test_owner_is_not_told_for_ever_what_a_silent_agent_said_of_its_recovery(notebook):
    notebook.paper.report(shares={notebook.uid: {"trouble": "It is tried again."}})
    notebook.paper.clock.at += 61
    assert (await notebook.seen()).sentence == ""


async def test_what_an_agent_says_of_its_journal_is_for_administrators(notebook):
    assert notebook.port.trouble == ""
    notebook.paper.report(shares={notebook.uid: {}}, missing={"journal": "It was set aside."})
    assert notebook.port.trouble == "n1: It was set aside."
    assert (await notebook.seen()).sentence == ""


async def test_device_that_the_kubelet_gave_is_not_lent(paper):
    notebook = await Notebook(paper).start(device="", gpus="1")
    notebook.told()
    assert "hold: always" in notebook.port.describe_refusal(*notebook.key)
    assert paper.runs.capabilities.agent_reports.orders("n1").shares == []
    assert (await notebook.seen()).share is None


@pytest.mark.parametrize(
    ("pool", "device", "why"),
    [
        ({"provider": "hami"}, "GPU-0", "The provider hami counts"),
        ({"provider": "kai"}, "", "The provider kai counts"),
        ({"hold": Hold.ALWAYS}, "MIG-0", "A slice of a GPU"),
        ({"hold": Hold.ALWAYS}, "GPU-0,GPU-1", "Only the share of one GPU"),
        ({"hold": Hold.ALWAYS}, "GPU-0", ""),
    ],
)
async def test_only_what_a_reservation_holds_is_lent(pool, device, why):
    paper = PaperBackend(pool=pool)
    notebook = await Notebook(paper).start(device=device, gpus="1")
    notebook.told()
    refusal = notebook.port.describe_refusal(*notebook.key)
    assert refusal.startswith(why)
    assert bool(refusal) == bool(why)
    await paper.close()


@pytest.mark.parametrize("provider", ["hami", "kai"])
async def test_share_that_was_suspended_before_its_pool_got_another_provider_comes_back(notebook, provider):
    notebook.told("SUSPENDED")
    notebook.paper.pool = replace(notebook.paper.pool, provider=provider)
    assert (await notebook.share()).phase is SharePhase.SUSPENDED
    assert notebook.port.describe_refusal(*notebook.key).startswith(f"The provider {provider} counts")
    notebook.port.resume(*notebook.key)
    assert notebook.order().want == "in_use"
    notebook.told("IN_USE")
    assert (await notebook.share()).phase is SharePhase.IN_USE


@pytest.mark.parametrize("state", [State.SUSPENDED, State.RESUMING, State.RUNNING])
async def test_service_that_starts_with_another_provider_follows_each_share(state):
    """A RUNNING notebook may be on its way: its suspension was begun by the service before."""
    paper = PaperBackend(pool={"provider": "hami"})
    notebook = await Notebook(paper, state).start()
    notebook.told("SUSPENDED")
    assert (await notebook.share()).phase is SharePhase.SUSPENDED
    notebook.port.resume(*notebook.key)
    assert notebook.order().want == "in_use"
    await paper.close()


async def test_jobs_are_not_suspended(paper):
    job = await paper.launch("job", "j", "n1/1")
    paper.pod(job.id, "n1/1", "GPU-1")
    await paper.observed(job.id)
    port = paper.runs.capabilities.suspension
    assert "with its checkpoint" in port.describe_refusal(job.id, job.run)
    port.suspend(job.id, job.run)
    assert paper.report().shares == []


async def test_share_is_forgotten_with_its_pod(notebook):
    notebook.told("SUSPENDED")
    notebook.paper.no_pod(notebook.key[0])
    await notebook.seen()
    assert notebook.paper.runs.capabilities.agent_reports.orders("n1").shares == []


async def test_limit_of_suspended_memory_is_told_to_the_agents(paper):
    assert paper.report().suspended_memory_mib is None
    paper.runs.share_orders.limit = lambda: MiB(2048)
    assert paper.report().suspended_memory_mib == 2048


async def test_whole_device_of_a_suspended_notebook_is_named_to_its_borrower(notebook):
    paper = notebook.paper
    paper.reservation("n1/0", phase="Running", node="n1")
    paper.report(given=[("nodes", names.reservation_name("n1/0"), "GPU-0")], shares={notebook.uid: {}})
    job = await paper.launch("job", "whole", "n1/0", gpus="1")
    other = await paper.launch("job", "other", "n1/1", gpus="1")
    for _ in range(3):
        await paper.observed(job.id)
        await asyncio.sleep(0)
    pods = {each.id: paper.cluster.bodies[names.training_name(each.id, 1, 0)] for each in (job, other)}
    (borrower, owner) = (pod["spec"]["containers"][0] for pod in pods.values())
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-0"} in borrower["env"]
    assert "nvidia.com/gpu" not in borrower.get("resources", {}).get("limits", {})
    assert owner["resources"]["limits"] == {"nvidia.com/gpu": "1"}, "nobody shares its device"
    assert paper.cluster.deleted == [], "the notebook has only lent its device"
