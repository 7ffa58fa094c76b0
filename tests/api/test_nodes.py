"""Administrators ask what the nodes of a cluster can do; nobody else may, and one machine has no agents to ask."""

import asyncio
import json

import pytest
from pydantic import ValidationError

from jupyter_gq.app import main
from jupyter_gq.client.agents import AgentReport
from jupyter_gq.client.bounds import MOST_ABILITIES
from jupyter_gq.client.models import NodeAbility, NodeDescription
from tests.fakes import RunsPods

from .world import World

pytestmark = pytest.mark.asyncio

MIG = NodeAbility(name="MIG", state="off", found="No GPU is partitioned.", advice="")
FINE = NodeDescription(
    node="n1",
    pool="a100",
    agent="reporting",
    age=1.0,
    release="1.2",
    gpus=8,
    obstacle="",
    abilities=[MIG],
    missing={},
)


@pytest.fixture
def cluster(tmp_path):
    """A service with agents."""
    world = World(tmp_path, machine_of=RunsPods)
    yield world
    world.close()


@pytest.fixture
def doctor(monkeypatch, capsys, tmp_path):
    """Run `jupyter-gq doctor` with a token; return its exit code, standard output and standard error."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "jupyter"))

    async def run(served, token, *arguments):
        monkeypatch.setenv("JUPYTER_GQ_TOKEN", token)
        code = await asyncio.to_thread(main, ["doctor", "--nodes", "--url", served.url, *arguments])
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        return code, told.out, told.err

    return run


async def test_admin_sees_what_each_node_can_do(cluster, serve, doctor):
    served = await serve(cluster.controller)
    cluster.machine.described = [FINE]
    code, out, _ = await doctor(served, "root")
    assert code == 0
    assert out.splitlines()[:2] == ["NODE  POOL  AGENT  GPUS  MIG", "n1    a100  1.2       8  off"]
    code, out, _ = await doctor(served, "root", "-o", "json")
    assert json.loads(out)["nodes"] == [FINE.model_dump()]


async def test_node_of_an_older_agent_or_without_shares_ends_with_code_1(cluster, serve, doctor):
    served = await serve(cluster.controller)
    for change in ({"release": "", "abilities": None}, {"obstacle": "Its driver is lost."}):
        cluster.machine.described = [FINE, FINE.model_copy(update={"node": "n2", **change})]
        assert (await doctor(served, "root"))[0] == 1
        assert (await doctor(served, "root", "-o", "json"))[0] == 1


async def test_only_admins_may_ask(cluster, serve, doctor):
    served = await serve(cluster.controller)
    assert (await served.problem("GET", "api/v1/nodes"))[0] == 403
    assert (await served.problem("GET", "api/v1/nodes", None))[0] == 401
    code, _, err = await doctor(served, "ann")
    assert code == 3
    assert "custom:gq:admin" in err


async def test_service_of_one_machine_says_that_it_has_no_agents(tmp_path, serve, doctor):
    world = World(tmp_path)
    code, _, err = await doctor(await serve(world.controller), "root")
    world.close()
    assert code == 3
    assert "no agents on nodes: it looks at its own devices" in err


async def test_address_without_nodes_is_refused(capsys):
    assert main(["doctor", "--url", "http://127.0.0.1:1"]) == 2
    assert "Add --nodes" in capsys.readouterr().err


@pytest.mark.parametrize(
    "abilities",
    [
        [{"name": "a", "state": "works", "found": "x" * 1001}],
        [{"name": "a", "state": "works", "found": "two\nlines"}],
        [{"name": "", "state": "works", "found": "x"}],
        [{"name": "a" * 101, "state": "works", "found": "x"}],
        [{"name": "a", "state": "works", "found": "x"}] * (MOST_ABILITIES + 1),
        [{"name": "a", "state": "works", "found": "x", "more": 1}],
    ],
)
async def test_report_with_too_many_or_too_long_words_is_refused(abilities):
    with pytest.raises(ValidationError):
        AgentReport(probe="OK", abilities=abilities)
