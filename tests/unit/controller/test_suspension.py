"""An idle notebook lends its share without loss, and has it back when a cell waits."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
import pytest_asyncio

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.models import JobChange
from jupyter_gq.controller.caller import Caller
from jupyter_gq.devices.meter import ShareUse
from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.audit import Action, AuditFilter
from jupyter_gq.domain.errors import Conflict
from jupyter_gq.domain.mentions import render, reveal
from jupyter_gq.domain.states import State
from tests.fakes import StopsTooLate, SuspendsShares, a_node

from .world import ADMIN, ANN, BOB, World, story_settings

pytestmark = pytest.mark.asyncio

#: Both devices are in one pool; notebooks may be idle for a minute, and are warned 20 s before.
SHARED = {
    "Pools": {"pools": {}},
    "FixedQuota": {"default": "1", "groups": {}},
    "TrainingQueues": {"queues": {"vision": {"quota": "2"}, "nlp": {"quota": "0"}}},
    "IdlePolicy": {"after": 60, "warning": 20, "grace": 10},
}


@pytest_asyncio.fixture
async def lab(tmp_path):
    """Ann's and Bob's notebooks hold one of the two devices each."""
    world = World(tmp_path, servers=SuspendsShares, settings=story_settings(**SHARED))
    await world.start_server(ANN, "1")
    await world.start_server(BOB, "1")
    yield world
    world.close()


@pytest_asyncio.fixture
async def stubborn(tmp_path):
    """As `lab`, but jobs ignore that they are told to stop, and are killed after their grace."""
    world = World(tmp_path, servers=SuspendsShares, backend=StopsTooLate, settings=story_settings(**SHARED))
    await world.start_server(ANN, "1")
    await world.start_server(BOB, "1")
    yield world
    world.close()


async def spend(world: World, seconds: float, *, ann: bool | None = False) -> None:
    """Time in which Bob works, and Ann's kernel is as told."""
    until = world.clock.now() + seconds
    while world.clock.now() < until:
        world.report(BOB, busy=True)
        world.report(ANN, busy=ann)
        await world.step(seconds=5)


async def suspended(world: World) -> str:
    """Ann's share is suspended for a job, which is returned."""
    job = world.send(ANN, "vision", "1")
    await spend(world, 90)
    assert world.notebook(ANN).phase == "suspended"
    return job


def acts(world: World, action: Action) -> list[dict]:
    return [dict(each.details) for each in world.sql.audit(AuditFilter(action=action))]


async def test_a_suspended_notebook_whose_kernel_has_ended_says_that_its_variables_are_lost(lab):
    await suspended(lab)
    name = lab.notebook(ANN).id
    assert lab.notebook(ANN).suspension.memory_mib == 1000
    lab.servers.shares[name] = replace(lab.servers.shares[name], memory=MiB(0), ended=True)
    await spend(lab, 10)
    shown = lab.notebook(ANN)
    assert (shown.phase, shown.suspension.memory_mib) == ("suspended", 0)
    assert shown.sentence.startswith("The kernel whose GPU state was kept has ended, and its variables with it.")


async def test_nothing_is_suspended_while_nobody_waits(lab):
    await spend(lab, 300)
    assert (lab.notebook(ANN).phase, lab.servers.calls) == ("running", [])


async def test_the_time_that_a_warning_names_holds_also_when_the_notebook_is_idle_for_long_and_over_restarts(lab):
    await spend(lab, 50)
    lab.send(ANN, "vision", "1")
    await spend(lab, 5)
    named = lab.notebook(ANN).warning.expire_at
    lab.restart()
    await spend(lab, named - lab.clock.now() - 5)
    assert lab.notebook(ANN).phase == "running"
    await spend(lab, 30)
    assert lab.notebook(ANN).phase == "suspended"


async def test_the_time_of_a_withdrawn_warning_holds_for_the_next_job_and_is_saved(lab):
    await spend(lab, 50)
    job = lab.send(ANN, "vision", "1")
    await spend(lab, 5)
    named = lab.notebook(ANN).warning.expire_at
    lab.controller.jobs.cancel(ANN, job)
    await spend(lab, 10)
    assert lab.notebook(ANN).warning is None
    assert lab.sql.get(lab.notebook(ANN).id).workload.activity.promised_until == named
    lab.send(ANN, "vision", "1")
    await spend(lab, named - lab.clock.now() - 1)
    assert lab.notebook(ANN).phase == "running"
    assert lab.servers.calls == []
    await spend(lab, 30)
    assert lab.notebook(ANN).phase == "suspended"


async def test_an_idle_share_is_warned_suspended_lent_and_brought_back(lab):
    job = lab.send(ANN, "vision", "1")
    await spend(lab, 50)
    assert "waits for its share" in reveal(lab.notebook(ANN).warning.sentence)
    assert "Nothing is lost" in lab.notebook(ANN).warning.sentence
    assert lab.sql.get(lab.notebook(ANN).id).workload.activity.told_lent
    await spend(lab, 30)
    view = lab.notebook(ANN)
    assert (view.phase, view.warning, view.suspension.memory_mib) == ("suspended", None, 1000)
    assert "ann's digits" in reveal(view.sentence)
    assert "next cell" in view.sentence
    assert lab.job(job).phase == "running"
    assert "may be paused at any moment" in lab.job(job).sentence
    assert lab.job(job).over_quota == "1", "all of a borrower may be reclaimed, also within the quota of its queue"
    assert lab.controller.tickets.count_suspended() == (1, 1000)
    assert [device.used for device in lab.controller.overview.list_devices(ADMIN).devices] == ["1", "1"]

    await spend(lab, 1, ann=True)
    assert "makes room" in lab.notebook(ANN).sentence
    assert lab.notebook(ANN).phase == "suspended"
    await spend(lab, 15, ann=True)
    assert (lab.notebook(ANN).phase, lab.notebook(ANN).suspension) == ("running", None)
    assert lab.job(job).phase == "paused"
    await spend(lab, 30, ann=True)
    assert lab.notebook(ANN).phase == "running"


async def test_a_job_that_fits_beside_the_suspended_share_borrows_nothing(tmp_path):
    lab = World(tmp_path, servers=SuspendsShares, settings=story_settings(**SHARED))
    await lab.start_server(ANN, "0.5")
    await lab.start_server(BOB, "1")
    large = await suspended(lab)
    assert "may be paused at any moment" in lab.job(large).sentence
    lab.controller.jobs.cancel(ANN, large)
    small = lab.send(ANN, "vision", "0.5")
    await spend(lab, 20)
    assert (lab.notebook(ANN).phase, lab.job(small).phase) == ("suspended", "running")
    assert "may be paused at any moment" not in lab.job(small).sentence
    lab.close()


async def test_what_was_done_is_in_the_audit_log(lab):
    job = await suspended(lab)
    (suspend,) = acts(lab, Action.NOTEBOOK_SUSPEND)
    assert (suspend["for_workload"], suspend["memory_mib"], suspend["seconds"]) == (job, 1000, 2)
    assert "ann's digits" in suspend["sentence"]
    await spend(lab, 20, ann=True)
    (resume,) = acts(lab, Action.NOTEBOOK_RESUME)
    assert (resume["seconds"], resume["memory_mib"]) == (1, 1000)
    assert resume["suspended_seconds"] > 0


async def test_the_devices_are_lent_only_once_the_bytes_are_gone(lab):
    job = lab.send(ANN, "vision", "1")
    while ("suspend", lab.notebook(ANN).id) not in lab.servers.calls:
        await spend(lab, 5)
    assert lab.servers.shares[lab.notebook(ANN).id].phase is SharePhase.SUSPENDING
    assert (lab.notebook(ANN).phase, lab.job(job).phase) == ("running", "waiting")


async def test_a_cell_between_decision_and_suspension_undoes_it(lab):
    lab.send(ANN, "vision", "1")
    while not lab.servers.calls:
        await spend(lab, 5)
    lab.report(ANN, busy=True)
    await spend(lab, 20, ann=True)
    assert lab.notebook(ANN).phase == "running"
    assert lab.servers.shares[lab.notebook(ANN).id].phase is SharePhase.IN_USE
    assert acts(lab, Action.NOTEBOOK_SUSPEND) == []


async def test_a_cell_that_begins_and_ends_between_two_reports_undoes_it(lab):
    lab.send(ANN, "vision", "1")
    while not lab.servers.calls:
        await spend(lab, 5)
    lab.clock.forward(0.5)
    lab.report(ANN, busy=False, last=lab.clock.now())
    await lab.step()
    assert lab.notebook(ANN).phase == "running"
    assert lab.servers.calls[-1] == ("resume", lab.notebook(ANN).id)
    await spend(lab, 10)
    assert lab.servers.shares[lab.notebook(ANN).id].phase is SharePhase.IN_USE
    assert acts(lab, Action.NOTEBOOK_SUSPEND) == []


async def test_the_move_of_its_memory_is_no_use_of_a_share(lab):
    class Moves:
        def measure(self, shares):
            moved = {name for name, share in lab.servers.shares.items() if share.phase is SharePhase.SUSPENDING}
            return {name: ShareUse(memory=0, utilisation=80 if name in moved else 0) for name in shares}

    lab.controller._context.meter = Moves()
    lab.send(ANN, "vision", "1")
    await spend(lab, 90)
    assert lab.notebook(ANN).phase == "suspended"


async def test_keep_it_undoes_also_a_suspension_without_a_warning(lab):
    await spend(lab, 90)
    lab.send(ANN, "vision", "1")
    while not lab.servers.calls:
        await spend(lab, 5)
    assert lab.notebook(ANN).warning is None
    kept = lab.controller.tickets.keep(ANN, "").kept_until
    assert [float(each["seconds"]) > 0 for each in acts(lab, Action.NOTEBOOK_KEEP)] == [True]
    await spend(lab, 20)
    assert (lab.notebook(ANN).phase, lab.notebook(ANN).kept_until) == ("running", kept)
    assert lab.servers.shares[lab.notebook(ANN).id].phase is SharePhase.IN_USE


async def test_keep_it_between_decision_and_suspension_undoes_it(lab):
    lab.send(ANN, "vision", "1")
    while not lab.servers.calls:
        await spend(lab, 5)
    kept = lab.controller.tickets.keep(ANN, "").kept_until
    await spend(lab, 20)
    assert (lab.notebook(ANN).phase, lab.notebook(ANN).kept_until) == ("running", kept)
    assert lab.servers.shares[lab.notebook(ANN).id].phase is SharePhase.IN_USE


async def test_keep_it_that_comes_too_late_says_what_has_become_of_the_share(lab):
    await suspended(lab)
    with pytest.raises(Conflict, match="the next cell that you run brings it back"):
        lab.controller.tickets.keep(ANN, "")
    while lab.notebook(ANN).phase == "suspended":
        await spend(lab, 1, ann=True)
    assert lab.notebook(ANN).phase == "resuming"
    with pytest.raises(Conflict, match="coming back already"):
        lab.controller.tickets.keep(ANN, "")
    lab.controller.tickets.close(ANN, lab.notebook(ANN).id)
    with pytest.raises(Conflict, match="being stopped already"):
        lab.controller.tickets.keep(ANN, "")


async def test_a_refusal_is_shown_and_backs_off(lab):
    lab.servers.refuses = "The kernel uses managed memory."
    lab.send(ANN, "vision", "1")
    await spend(lab, 100)
    view = lab.notebook(ANN)
    assert (view.phase, view.suspension_refusal) == ("running", "The kernel uses managed memory.")
    assert lab.servers.calls == [("suspend", view.id)]
    await spend(lab, 300)
    tries = lab.servers.calls.count(("suspend", view.id))
    assert 2 <= tries <= 4  # after 60 s, then 120 s, and so on
    lab.servers.refuses = ""
    await spend(lab, 600)
    assert (lab.notebook(ANN).phase, lab.notebook(ANN).suspension_refusal) == ("suspended", "")


async def test_the_owner_of_the_waiting_job_reads_why_the_share_was_not_taken_and_when_that_is_tried_again(lab):
    lab.servers.refuses = "The kernel does not leave the GPU."
    job = lab.send(BOB, "vision", "1", name="large")
    while not lab.notebook(ANN).suspension_refusal:
        await spend(lab, 1)
    await spend(lab, 10)
    until = lab.notebook(ANN).kept_until  # the share is kept during the backoff
    told = (
        "ann's server is idle but could not be suspended: The kernel does not leave the GPU. The next attempt is at "
        f"{datetime.fromtimestamp(until, tz=UTC):%H:%M:%S} UTC."
    )
    assert reveal(lab.job(job).sentence).endswith(f"ann's server (1 GPU) is in the way. {told}")
    await spend(lab, 5, ann=True)
    assert "could not be suspended" not in lab.job(job).sentence, "the notebook is in use"


async def test_others_read_of_the_reason_only_if_they_may_know_whose_notebook_is_in_the_way(lab):
    lab.servers.refuses = "Process 4711 uses managed memory, which the driver does not suspend."
    job = lab.send(BOB, "vision", "1", name="large")
    while not lab.notebook(ANN).suspension_refusal:
        await spend(lab, 1)
    await spend(lab, 10)
    sentence = render(lab.job(job).sentence, lambda owner: False)
    assert "another user's notebook is idle but could not be suspended. The next attempt is at " in sentence
    assert "4711" not in sentence


async def test_a_refusal_after_the_clock_was_set_back_is_not_tried_again_at_once(lab):
    lab.servers.refuses = "The kernel uses managed memory."
    lab.send(ANN, "vision", "1")
    while not lab.servers.calls:
        await spend(lab, 1)
    lab.clock.set(-3600.0)
    await spend(lab, 30)
    assert lab.servers.calls == [("suspend", lab.notebook(ANN).id)]
    assert lab.notebook(ANN).suspension_refusal == "The kernel uses managed memory."


async def test_a_cell_that_waits_for_a_lost_gpu_is_told_so_and_is_promised_nothing_until_the_gpu_is_found(lab):
    await suspended(lab)
    nodes = lab.nodes
    lost = tuple(replace(device, healthy=False) for device in nodes[0].devices)
    lab.servers._nodes = lab.backend._nodes = (replace(nodes[0], devices=lost),)
    await spend(lab, 10)
    assert "cannot be used" not in lab.notebook(ANN).sentence, "nobody needs the GPU yet"
    await spend(lab, 10, ann=True)
    view = lab.notebook(ANN)
    assert view.sentence.startswith("A cell waits for the share. The GPU of this share cannot be used at present")
    assert view.suspension.back_within is None
    lab.servers._nodes = lab.backend._nodes = nodes
    await spend(lab, 30, ann=True)
    assert (lab.notebook(ANN).phase, lab.notebook(ANN).trouble) == ("running", "")


async def test_a_resume_that_lost_the_state_ends_the_suspension_and_is_not_repeated(lab):
    await suspended(lab)
    lab.servers.loses = "The GPU state of the kernel is lost."
    await spend(lab, 60, ann=True)
    assert lab.notebook(ANN).phase == "running"
    assert lab.servers.calls.count(("resume", lab.notebook(ANN).id)) == 1
    (resume,) = acts(lab, Action.NOTEBOOK_RESUME)
    assert resume["failure"] == "The GPU state of the kernel is lost."


def promise(lab, seconds, **sections):
    """Let a share be back within these seconds once a cell waits, with these settings of other sections."""
    changed = {**SHARED, "IdlePolicy": {**SHARED["IdlePolicy"], "return_within": seconds}}
    lab.settings.current = story_settings(**{**changed, **sections})


async def is_back_within(lab, seconds):
    """Use Ann's notebook: its share is back in this time, which its owner reads."""
    lab.report(ANN, busy=True)
    told = lab.clock.now()
    await lab.step()
    while lab.notebook(ANN).phase != "running":
        assert lab.clock.now() - told <= seconds, lab.backend.stops
        if lab.notebook(ANN).phase == "suspended":
            assert lab.notebook(ANN).suspension.back_within == pytest.approx(seconds - (lab.clock.now() - told))
        lab.report(ANN, busy=True)
        await lab.step(seconds=1)


async def test_the_share_is_back_in_time_from_a_borrower_that_does_not_stop_by_itself(stubborn):
    promise(stubborn, 10)
    job = await suspended(stubborn)
    assert stubborn.backend.launches[-1].environment["GQ_STOP_GRACE"] == "5"
    await is_back_within(stubborn, 10)
    (grace,) = [grace for workload, _, grace in stubborn.backend.stops if workload == job]
    assert grace == 5  # of 10 s, 2 are for the way back, and 3 to see the borrower's end


@pytest.mark.parametrize("by_user", [True, False])
async def test_the_share_is_back_in_time_from_a_borrower_that_was_told_to_stop_with_more_time(stubborn, by_user):
    slow = {"grace": 900, "cancel_grace": 900}
    promise(stubborn, 10, TrainingQueues={**SHARED["TrainingQueues"], **slow})
    job = await suspended(stubborn)
    if by_user:
        stubborn.controller.jobs.cancel(ANN, job)
    else:
        stubborn.controller.job_changes.change(ANN, job, JobChange(held=True))
    await spend(stubborn, 20)
    assert [grace for _, _, grace in stubborn.backend.stops] == [900]
    await is_back_within(stubborn, 10)


async def test_the_job_beside_a_lent_share_is_neither_paused_nor_hurried_for_it(tmp_path):
    """`owner` had the other half of Ann's device first. If it is stopped later, it has the time it was promised."""
    slow = {**SHARED["TrainingQueues"], "grace": 900, "cancel_grace": 900}
    world = World(tmp_path, servers=SuspendsShares, backend=StopsTooLate)
    world.settings.current = story_settings(**{**SHARED, "TrainingQueues": slow})
    await world.start_server(ANN, "0.5")
    await world.start_server(BOB, "1")
    owner = world.send(ANN, "vision", "0.5")
    await spend(world, 5)
    borrower = world.send(ANN, "vision", "0.5")
    await spend(world, 90)
    assert (world.notebook(ANN).phase, world.job(borrower).phase) == ("suspended", "running")
    assert [world.job(each).over_quota for each in (owner, borrower)] == [None, "0.5"]
    lent = [each for each in (owner, borrower) if "may be paused at any moment" in world.job(each).sentence]
    world.controller.jobs.cancel(ANN, owner)
    await spend(world, 5)
    await spend(world, 90, ann=True)
    told = {workload: grace for workload, _, grace in reversed(world.backend.stops)}
    assert (lent, told[owner], told[borrower] < 60) == ([borrower], 900, True)
    assert world.notebook(ANN).phase == "running"
    world.close()


async def test_the_notebook_with_the_longest_way_back_sets_the_time_of_a_borrower_of_two(stubborn):
    promise(stubborn, 10)
    stubborn.servers.takes[stubborn.notebook(BOB).id] = 5
    stubborn.send(ANN, "vision", "2")
    for busy in (False, True):
        for _ in range(30):
            stubborn.report(ANN, busy=busy)
            stubborn.report(BOB, busy=busy)
            await stubborn.step(seconds=5)
        assert {stubborn.notebook(each).phase for each in (ANN, BOB)} == {"running" if busy else "suspended"}
    assert min(grace for _, _, grace in stubborn.backend.stops) == 2  # of 10 s, without 5 for Bob's way back, and 3


async def test_a_promise_that_leaves_no_time_for_the_way_back_is_longer(stubborn):
    promise(stubborn, 1)
    await suspended(stubborn)
    await is_back_within(stubborn, 6)  # 1 s for the borrower, 3 to see its end, and 2 for the way back


async def test_a_suspended_server_that_ends_leaves_the_device_to_the_borrower(lab):
    job = await suspended(lab)
    ticket = lab.notebook(ANN).id
    lab.controller.tickets.close(ADMIN, ticket)
    await lab.step(2)
    assert lab.notebook(ANN).phase == "stopping"
    lab.server_dies(lab.controller._context.records.get(ticket).detail.pid)
    await lab.step(2)
    assert lab.controller.tickets.show(ADMIN, ticket).phase == "stopped"
    assert lab.job(job).phase == "running"


@pytest.mark.parametrize("during", [State.SUSPENDED, State.RESUMING])
async def test_a_server_that_dies_while_it_is_suspended_has_stopped(lab, during):
    await suspended(lab)
    record = lab.controller._context.records.get(lab.notebook(ANN).id)
    lab.report(ANN, busy=during is State.RESUMING)
    while lab.controller._context.records.get(record.workload.id).workload.state is not during:
        await lab.step()
    lab.server_dies(record.detail.pid)
    await lab.step(3)
    assert lab.controller.tickets.show(ADMIN, record.workload.id).phase == "stopped"


async def test_a_server_that_is_stopped_while_it_resumes_keeps_its_device_until_it_has_ended(lab):
    await suspended(lab)
    ticket = lab.notebook(ANN).id
    lab.report(ANN, busy=True)
    while lab.notebook(ANN).phase != "resuming":
        await lab.step()
    lab.controller.tickets.close(ADMIN, ticket)
    await lab.step(2)
    assert lab.notebook(ANN).phase == "stopping"
    lab.server_dies(lab.controller._context.records.get(ticket).detail.pid)
    await lab.step(2)
    assert lab.controller.tickets.show(ADMIN, ticket).phase == "stopped"


async def test_a_share_that_was_resumed_behind_the_services_back_makes_the_borrower_leave(lab):
    job = await suspended(lab)
    name = lab.notebook(ANN).id
    lab.servers.shares[name] = replace(lab.servers.shares[name], phase=SharePhase.IN_USE)
    await lab.step(5)
    assert (lab.notebook(ANN).phase, lab.job(job).phase) == ("running", "paused")


async def test_a_program_that_uses_a_lent_device_brings_the_share_back(lab):
    await suspended(lab)
    record = lab.controller._context.records.get(lab.notebook(ANN).id)
    lab.probe.used = {record.detail.pid + 1: 0}
    await spend(lab, 20)
    assert lab.notebook(ANN).phase == "running"


async def test_the_switch_turns_it_off(lab):
    lab.settings.current = story_settings(**{**SHARED, "IdlePolicy": {**SHARED["IdlePolicy"], "suspend": False}})
    lab.send(ANN, "vision", "1")
    await spend(lab, 60)
    assert lab.servers.calls == []


@pytest.mark.parametrize(("suspend", "calls"), [(None, []), (False, []), (True, ["suspend"])])
async def test_shares_of_real_gpus_are_suspended_only_when_told(tmp_path, suspend, calls):
    """No release has been tried with suspension on hardware, so the administrator turns it on."""
    real = replace(a_node(2), devices=tuple(replace(each, id=f"GPU-{each.index}f5c") for each in a_node(2).devices))
    sections = {**SHARED, "IdlePolicy": {**SHARED["IdlePolicy"], "suspend": suspend}}
    world = World(tmp_path, servers=SuspendsShares, nodes=(real,), settings=story_settings((real,), **sections))
    await world.start_server(ANN, "1")
    await world.start_server(BOB, "1")
    world.send(ANN, "vision", "1")
    while not (world.servers.calls or world.servers.stops):
        await spend(world, 5)
    assert [what for what, _ in world.servers.calls] == calls
    world.close()


async def test_only_preemptible_work_borrows(lab):
    """Ann's own second notebook waits; it cannot give a device back, so it does not borrow."""
    await suspended(lab)
    lab.backend.end(lab.backend.alive()[0][0], Outcome.SUCCEEDED)
    carol = Caller(user="carol", groups=frozenset())
    ticket = lab.ask(carol, "1")
    await spend(lab, 5)
    assert lab.controller.tickets.show(carol, ticket.id).phase == "waiting"
