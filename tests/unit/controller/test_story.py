"""The story of the product, told without processes: each sentence that its people read is true."""

import pytest

from jupyter_gq.client.models import JobRequest
from jupyter_gq.domain.errors import QuotaExceeded
from jupyter_gq.domain.mentions import reveal

from .world import ANN, BOB, CAROL, World

pytestmark = pytest.mark.asyncio


async def test_the_story(world: World):  # noqa: PLR0915 - it is one story
    # 1. Ann's page offers CPU only, 0.25 and 0.5; Ann takes 0.5 at once, and Bob 0.25 of the same GPU.
    me = world.controller.overview.describe_user(ANN)
    assert [(c.gpus, c.available, c.starts_now) for c in me.choices] == [
        ("0", True, True),
        ("0.25", True, True),
        ("0.5", True, True),
    ]
    assert (me.quota, me.used, me.left) == ("0.5", "0", "0.5")
    ann_ticket = await world.start_server(ANN, "0.5")
    assert ann_ticket.environment["JUPYTER_GQ_GPUS"] == "0.5"
    bob_ticket = await world.start_server(BOB, "0.25")
    assert world.notebook(ANN).devices == world.notebook(BOB).devices == ["GPU-sim-box-0"]
    assert world.notebook(ANN).phase == "running"
    assert world.controller.overview.describe_user(ANN).left == "0"

    # 2. Bob wants a second server: refused, with the numbers.
    with pytest.raises(QuotaExceeded, match=r"0\.25 GPU, but your fixed quota is 0\.25 GPU and 0\.25 of it"):
        world.ask(BOB, "0.25", "second")

    # 3. Ann sends a cell with a whole GPU: starts now, 0.5 over the queue's quota.
    preview = await world.controller.previews.preview(ANN, JobRequest(queue="vision", gpus="1"))
    assert preview.starts_now
    assert "0.5 GPU over your queue's quota" in preview.sentence
    assert preview.over_quota == "0.5"
    ann_job = world.send(ANN, "vision", "1")
    await world.step(2)
    view = world.job(ann_job)
    assert (view.phase, view.devices, view.over_quota) == ("running", ["GPU-sim-box-1"], "0.5")
    world.controller.jobs.append_outputs(ann_job, [{"seq": 1, "run": 1, "at": 0, "op": "run", "state": "start"}])

    # 4. Ann closes the laptop; the server stops. The job goes on.
    world.controller.tickets.close(ANN, ann_ticket.id)
    world.servers.processes.clear()
    bob_pid = world.attach(BOB, bob_ticket.id)
    await world.step(2)
    assert world.controller.tickets.list_notebooks(ANN).notebooks == []
    assert world.job(ann_job).phase == "running"

    # 5. Bob is entitled to 0.5 of nlp: Ann's job is paused, Bob's runs.
    bob_job = world.send(BOB, "nlp", "0.5")
    await world.step(3)
    assert world.job(bob_job).phase == "running"
    paused = world.job(ann_job)
    assert paused.phase == "paused"
    assert paused.sentence.startswith("Paused: nlp needed its 0.5 GPU back. Continues by itself")
    assert paused.eviction is not None
    assert (paused.eviction.reason, paused.eviction.by) == ("RECLAIMED", "nlp")
    assert paused.position == 1

    # 6. Bob's ends; Ann's continues, with a second run and its seniority.
    world.backend.end(bob_job)
    await world.step(3)
    assert world.job(bob_job).phase == "done"
    again = world.job(ann_job)
    assert (again.phase, again.run, again.submitted_at) == ("running", 2, paused.submitted_at)
    assert again.last_seq == 1

    # 7. Bob goes to lunch. Ann and Carol want 0.5 each: one fits, for the other Bob is warned, then stopped.
    await world.start_server(ANN, "0.5")
    carol_ticket = world.ask(CAROL, "0.5")
    since = world.clock.now()
    await _lunch(world, minutes=19, since=since, carol=carol_ticket.id)
    assert world.notebook(BOB).warning is None
    await _lunch(world, minutes=3, since=since, carol=carol_ticket.id)
    warning = world.notebook(BOB).warning
    assert warning is not None
    assert warning.expire_at == pytest.approx(since + 1800, abs=90)
    assert "carol's server (0.5 GPU) waits for its share" in reveal(warning.sentence)
    await _lunch(world, minutes=12, since=since, carol=carol_ticket.id)
    assert bob_pid not in world.servers.processes
    eviction = world.controller.overview.describe_user(BOB).last_eviction
    assert eviction is not None
    assert (eviction.reason, reveal(eviction.by or "")) == ("IDLE", "carol")
    assert "carol's server (0.5 GPU) waited for its 0.25 GPU" in reveal(eviction.sentence)
    assert world.controller.tickets.show(CAROL, carol_ticket.id).phase == "starting"

    # 8. Ann's job is done; the panel says what ran and why it was paused.
    world.backend.end(ann_job)
    await world.step(2)
    done = world.controller.job_lists.list_jobs(ANN, limit=10, before=None).jobs[0]
    assert (done.phase, done.node, done.run) == ("done", "box", 2)
    assert done.eviction is not None
    assert world.backend.copies.most_common(1)[0][1] == 1


async def _lunch(world: World, *, minutes: int, since: float, carol: str) -> None:
    for _ in range(minutes * 2):
        world.controller.tickets.show(CAROL, carol)
        if world.controller.tickets.list_notebooks(BOB).notebooks:
            world.report(BOB, busy=False, last=since)
        world.report(ANN, busy=True)
        await world.step(seconds=30)
