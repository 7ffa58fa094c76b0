"""A place that is refused, a backend that forgets, nodes that cannot share: no workload loses its place in line."""

import json
from dataclasses import replace

import pytest

from jupyter_gq.app import main
from jupyter_gq.backends.capabilities import Stray
from jupyter_gq.backends.protocol import Phase
from jupyter_gq.domain.cluster import SHARE_LABEL
from jupyter_gq.domain.workload import Kind
from tests.fakes import ForgetsEverything, NeverStops, PlaceIsTaken, PodsAreLeftBehind, SharesOnSomeNodes

from .world import ADMIN, ANN, BOB, play


class ServersAreRefusedToo(PlaceIsTaken):
    """Notebooks are pods as well."""

    kinds = frozenset({Kind.NOTEBOOK, Kind.TRAINING})


def test_a_refused_job_waits_longer_each_time_and_says_why(tmp_path):
    async def story(world):
        job = world.send(ANN, "vision")
        await world.step(2)
        view = world.job(job)
        assert view.phase == "paused"
        assert (
            view.sentence
            == "Node n1 rejected the pod: 0/1 nodes are available. The scheduler tries again after a pause of 20 s."
        )
        await world.step(19)
        assert len(world.backend.launches) == 1
        await world.step(3)
        assert len(world.backend.launches) == 2
        await world.step(38)
        assert len(world.backend.launches) == 2
        await world.step(4)
        assert len(world.backend.launches) == 3
        assert world.job(job).submitted_at == view.submitted_at

    play(tmp_path, PlaceIsTaken, story)


def test_a_later_run_is_told_which_numbers_of_outputs_are_taken(tmp_path):
    async def story(world):
        job = world.send(ANN, "vision")
        await world.step(2)
        pieces = [{"seq": seq, "run": 1, "op": "run", "state": "start"} for seq in (1, 2, 3)]
        assert world.controller.jobs.append_outputs(job, pieces) == 3
        await world.step(22)
        assert [(launch.workload.run, launch.last_seq) for launch in world.backend.launches] == [(1, 0), (2, 3)]

    play(tmp_path, PlaceIsTaken, story)


def test_a_refused_server_keeps_its_ticket_and_its_place_in_line(tmp_path):
    async def story(world):
        world.backend.refusals = 1
        ticket = world.ask(ANN, "0.5").id
        asked_at = world.notebook(ANN).submitted_at
        await world.step(2)
        told = world.controller.tickets.show(ANN, ticket)
        assert (told.phase, told.environment) == ("waiting", {})
        assert told.sentence.startswith("Node n1 rejected the pod: 0/1 nodes are available.")
        later = world.ask(ANN, "0.5").id
        assert later == ticket, "it is asked for again, and is the same"
        await world.step(2, seconds=20)
        assert world.controller.tickets.show(ANN, ticket).phase == "starting"
        assert world.notebook(ANN).submitted_at == asked_at
        assert [launch.workload.run for launch in world.backend.launches] == [1, 2]

    play(tmp_path, ServersAreRefusedToo, story)


def test_the_pause_has_an_end_and_a_start_that_works_forgets_the_refusals(tmp_path):
    async def story(world):
        world.backend.refusals = 12
        job = world.send(ANN, "vision")
        for _ in range(14):
            await world.step(2, seconds=601)
        assert world.job(job).phase == "running"
        assert len(world.backend.launches) == 13
        assert world.controller._context.records.get(job).detail.backoff is None

    play(tmp_path, PlaceIsTaken, story)


def test_others_use_the_place_while_a_refused_job_is_held_back(tmp_path):
    async def story(world):
        world.backend.refusals = 1
        first = world.send(ANN, "vision")
        await world.step(2)
        second = world.send(BOB, "nlp")
        await world.step(3)
        assert world.job(second).phase == "running"
        assert world.job(first).phase == "paused"

    play(tmp_path, PlaceIsTaken, story)


def test_each_job_in_back_off_has_its_own_place_in_its_queue(tmp_path):
    """Not the first place for all of them; and a job that comes later stands behind them, or passes."""

    async def story(world):
        jobs = [world.send(ANN, "vision", "0.5") for _ in range(2)]
        await world.step(2)
        assert [world.job(job).phase for job in jobs] == ["paused", "paused"]
        later = world.send(ANN, "vision")
        world.backend.refusals = 0
        await world.step()
        assert world.job(later).phase == "starting", "it passes"
        assert [world.job(job).position for job in jobs] == [1, 2]

    play(tmp_path, PlaceIsTaken, story)


def test_the_live_state_holds_the_back_off_and_replays_to_the_same_decision(tmp_path, capsys):
    async def story(world):
        world.send(ANN, "vision")
        await world.step(2)
        document = world.controller.overview.read_state()
        (pending,) = document["decision"]["pending"]
        assert pending["why"]["reason"] == "PLACE_REFUSED"
        file = tmp_path / "state.json"
        file.write_text(json.dumps(document))
        assert main(["replay", str(file)]) == 0, capsys.readouterr().out

    play(tmp_path, PlaceIsTaken, story)


def test_a_backend_that_forgets_is_told_again_and_loses_nothing(tmp_path):
    async def story(world):
        job = world.send(ANN, "vision")
        await world.step(3)
        assert world.job(job).phase == "running"
        world.restart()
        world.backend.runs.clear()
        await world.step(3)
        assert (world.job(job).phase, world.job(job).run) == ("running", 1)
        assert world.backend.launches[-1].workload.state.value == "RUNNING"

    play(tmp_path, ForgetsEverything, story)


def test_what_no_record_knows_is_left_alone(tmp_path, caplog):
    async def story(world):
        job = world.send(ANN, "vision")
        await world.step(3)
        run = replace(world.backend.runs[(job, 1)], workload="job-of-another-backup", run=4)
        world.backend.runs[("job-of-another-backup", 4)] = run
        await world.step(3)
        assert world.backend.stops == []
        assert caplog.text.count("job-of-another-backup runs and is in no record") == 1
        del world.backend.runs[("job-of-another-backup", 4)]
        await world.step()
        assert world.controller._context.unknown_runs == ()
        world.backend.runs[("job-of-another-backup", 4)] = run
        await world.step()
        assert caplog.text.count("job-of-another-backup runs and is in no record") == 2, "what is gone is forgotten"

    play(tmp_path, ForgetsEverything, story)


def test_a_run_of_an_ended_job_keeps_its_device_until_it_has_ended(tmp_path):
    """Such as one whose processes no signal ends: what starts there would share the device with it."""

    async def story(world):
        job = world.send(ANN, "vision")
        await world.step(3)
        run = replace(world.backend.runs[(job, 1)], phase=Phase.RUNNING)
        world.backend.end(job)
        await world.step(2)
        assert world.job(job).phase == "done"
        world.backend.runs[(job, 1)] = run
        await world.step()
        after = world.send(ANN, "vision")
        await world.step(3)
        assert world.job(after).phase == "waiting"
        (note,) = {each.note for each in world.controller.overview.list_devices(ADMIN).devices if each.note}
        assert note == f"{job} runs and should not; it is told to end"
        del world.backend.runs[(job, 1)]
        await world.step(3)
        assert world.job(after).phase == "running"

    play(tmp_path, NeverStops, story)


@pytest.mark.parametrize(("ticket", "why"), [("of-a-backup", "is in no record"), ("", "has no ticket any more")])
def test_a_notebooks_pod_that_was_left_behind_is_named_once(tmp_path, caplog, ticket, why):
    async def story(world):
        known = world.send(ANN, "vision")
        world.backend.left = [Stray(workload=ticket or known, pod="hub/jupyter-zoe", node="n1", devices=2)]
        await world.step(3)
        assert caplog.text.count(f"hub/jupyter-zoe on n1 {why} and keeps 2 devices from others") == 1
        world.backend.left = []
        await world.step()
        assert world.controller._observer._strays == set()

    play(tmp_path, PodsAreLeftBehind, story)


def test_a_fraction_needs_a_node_that_can_share(tmp_path):
    async def story(world):
        share = world.send(ANN, "vision", "0.5")
        job = world.send(BOB, "nlp", "1")
        await world.step(3)
        assert world.job(job).phase == "running"
        assert "no node of it has a working agent" in world.job(share).sentence

    play(tmp_path, SharesOnSomeNodes, story)


def test_a_fraction_goes_to_the_node_that_can_share(tmp_path):
    async def story(world):
        (node,) = world.nodes
        world.backend._nodes = (replace(node, labels=dict([SHARE_LABEL])),)
        share = world.send(ANN, "vision", "0.5")
        await world.step(3)
        assert world.job(share).phase == "running"

    play(tmp_path, SharesOnSomeNodes, story)
