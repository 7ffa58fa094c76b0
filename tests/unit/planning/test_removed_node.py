"""What `whatif --remove-node` answers is what the service does when that node really goes."""

import json

import pytest

from jupyter_gq.app import main
from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.domain.mentions import reveal
from tests.fakes import a_node
from tests.unit.controller.world import ADMIN, ANN, BOB, CAROL, World, story_settings

pytestmark = pytest.mark.asyncio

NODES = (a_node(2, name="n1"), a_node(2, name="n2"))
#: Who sends a job of one GPU to which queue, in this order.
SENT = [(ANN, "vision"), (BOB, "nlp"), (BOB, "nlp"), (ANN, "vision"), (CAROL, "vision"), (BOB, "nlp")]


def settings(vision, nlp):
    queues = {
        "vision": {"quota": vision, "groups": ["vision"]},
        "nlp": {"quota": nlp, "groups": ["nlp"]},
    }
    quota = {"default": "0", "groups": {}}
    return story_settings(NODES, TrainingQueues={"queues": queues}, Pools={"pools": {}}, FixedQuota=quota)


def answers(folder, world, node, capsys):
    """What the command says of each job to which something else would happen."""
    file = folder / "state.json"
    file.write_text(json.dumps(world.controller.overview.read_state()))
    capsys.readouterr()
    assert main(["whatif", str(file), "--remove-node", node]) == 0
    told, job = {}, ""
    for line in capsys.readouterr().out.splitlines():
        if line.startswith("job-"):
            job = line.split()[0]
        elif line.startswith("  then:"):
            told[job] = line.removeprefix("  then:").partition(" Expected to start")[0].strip()
    return told


def workloads(world):
    return {record.workload.id: record.workload for record in world.controller._context.records.unfinished()}


def lose(world, node):
    """Let a node go, with the runs on it."""
    for job, workload in workloads(world).items():
        if any(task.node == node for task in workload.placement):
            world.backend.end(job, Outcome.LOST, f"The node {node} is gone.")
    world.nodes = world.backend._nodes = world.servers._nodes = tuple(each for each in NODES if each.name != node)


def outcomes(world, before):
    """What the last decision did with each job, in the words of the command; `before` are the workloads before it."""
    pending, found = world.controller._context.pending, {}
    for job, workload in workloads(world).items():
        if job in pending:
            found[job] = reveal(pending[job].why.sentence)
        elif workload.run > before[job].run:
            found[job] = "starts now"
        elif workload.stop is not None:
            found[job] = reveal(workload.stop.sentence)
        else:
            found[job] = "goes on"
    return found


@pytest.mark.parametrize("node", ["n1", "n2"])
@pytest.mark.parametrize("quotas", [("2", "2"), ("3", "1"), ("4", "0")], ids=" ".join)
@pytest.mark.parametrize("ended", [0, 3], ids="{} cancelled".format)
async def test_the_answer_is_what_happens_when_the_node_goes(tmp_path, capsys, node, quotas, ended):
    world = World(tmp_path, nodes=NODES, settings=settings(*quotas))
    jobs = []
    for who, queue in SENT:
        jobs.append(world.send(who, queue))
        await world.step(2)
    for job in jobs[len(jobs) - ended :]:
        world.controller.jobs.cancel(ADMIN, job)
    await world.step(12)
    before = workloads(world)
    now, told = outcomes(world, before), answers(tmp_path, world, node, capsys)
    lose(world, node)
    await world.step()
    assert told, "the node had work"
    assert outcomes(world, before) == {**now, **told}
    world.close()
