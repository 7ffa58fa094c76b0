"""`jupyter-gq doctor --nodes` on a cluster: a row and a sentence for each node, whatever is wrong with it."""

import asyncio
import json

import pytest
import pytest_asyncio

from jupyter_gq._version import __version__
from jupyter_gq.api.auth import HubAuthenticator
from jupyter_gq.app import main
from jupyter_gq.backends.kubernetes import PodPool
from tests.api.hubs import SERVICE_TOKEN, Hub
from tests.kubernetes.agent_world import Service, an_agent, run
from tests.kubernetes.backend_world import World, give_rights, make_runtime_class
from tests.kubernetes.waiting import eventually
from tests.patience import scaled

pytestmark = pytest.mark.asyncio

LABELS = {"pool": "described"}
#: What each node is about, with the GPUs of its device plugin.
NODES = {"fine": 2, "no-agent": 2, "silent": 2, "older": 2, "no-gpu": 0, "no-plugin": 0}
#: An agent of a release that did not tell of abilities yet, nor of its own version.
OLDER = """
import sys
from jupyter_gq.agent import service_connection
from jupyter_gq.app import main
whole = service_connection.AgentReport.model_dump_json
service_connection.AgentReport.model_dump_json = lambda self, **how: whole(
    self.model_copy(update={"abilities": None}), **{**how, "exclude": {"release"}}
)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def namespaces(control_plane, namespace_set):
    give_rights(control_plane, namespace_set)
    make_runtime_class(control_plane)
    return namespace_set


@pytest.fixture(scope="module")
def kubelets(make_kubelet):
    return {name: make_kubelet(name, gpus=gpus, labels=LABELS) for name, gpus in NODES.items()}


@pytest_asyncio.fixture
async def world(control_plane, namespaces):
    world = World(control_plane, namespaces, pools=(PodPool(name="train", selector=LABELS),))
    yield world
    await world.close()


@pytest_asyncio.fixture
async def service(control_plane, namespaces, world, tmp_path):
    hub = Hub()
    await hub.start()
    people = HubAuthenticator(hub.url, SERVICE_TOKEN, timeout=scaled(30))
    service = Service(control_plane, namespaces, tmp_path, world.backend, people)
    service.start()
    yield service
    await service.end()
    people.close()
    await hub.stop()


@pytest.fixture
def doctor(service, monkeypatch, capsys, tmp_path):
    """Run `jupyter-gq doctor --nodes` as an administrator; return its exit code and standard output."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "root")
    monkeypatch.setenv("COLUMNS", "300")

    async def run(*arguments):
        code = await asyncio.to_thread(main, ["doctor", "--nodes", "--url", service.url, *arguments])
        told = capsys.readouterr()
        assert told.err == ""
        return code, told.out

    return run


def an_older_agent(url):
    pod = an_agent("agent-older", url, node="older", devices="2x A100-40GB")
    (container,) = pod["spec"]["containers"]
    name, *arguments = container["command"]
    assert name == "jupyter-gq"
    container["command"] = ["python", "-c", OLDER, *arguments]
    return pod


async def test_each_node_has_a_row_and_a_sentence_whatever_is_wrong_with_its_agent(
    control_plane, namespaces, kubelets, world, service, doctor
):
    await world.backend.observe()
    agents = [
        an_agent("agent-fine", service.url, node="fine", devices="2x A100-40GB"),
        an_agent("agent-silent", service.url, node="silent", devices="2x A100-40GB"),
        an_agent("agent-no-plugin", service.url, node="no-plugin", devices=""),
        an_older_agent(service.url),
    ]
    for agent in agents:
        await run(control_plane, namespaces.nodes, agent)

    async def nodes():
        await world.backend.observe()
        code, text = await doctor("-o", "json")
        assert code == 1, "some nodes take nothing"
        return {each["node"]: each for each in json.loads(text)["nodes"]}

    async def all_have_reported():
        found = await nodes()
        return {name for name, each in found.items() if each["agent"] == "reporting"} == {
            *("fine", "silent", "older", "no-plugin")
        }

    logs = lambda: [kubelets[name].log(namespaces.nodes, f"agent-{name}") for name in ("older", "no-plugin")]  # noqa: E731
    await eventually(all_have_reported, lambda: f"the first reports: {logs()}")
    silent = kubelets["silent"].container(namespaces.nodes, "agent-silent")
    silent.signal(9)
    await eventually(lambda: silent.code is not None, "the end of that agent")
    world.clock.ahead += 61

    async def others_have_reported_again():
        found = await nodes()
        return found if all(found[name]["agent"] == "reporting" for name in ("fine", "older", "no-plugin")) else None

    found = await eventually(others_have_reported_again, "newer reports")
    assert {name: (each["agent"], each["gpus"], each["offered"]) for name, each in found.items()} == {
        "fine": ("reporting", 2, 2),
        "no-agent": ("unheard", 0, 2),
        "no-gpu": ("unheard", 0, 0),
        "no-plugin": ("reporting", 0, 0),
        "older": ("reporting", 2, 2),
        "silent": ("silent", 2, 2),
    }
    assert found["fine"]["obstacle"] == ""
    assert (found["fine"]["release"], found["older"]["release"]) == (__version__, "")
    assert "has been silent for" in found["silent"]["obstacle"]

    code, text = await doctor()
    rows = {line.split()[0]: line.split()[1:4] for line in text.splitlines()[1:7]}
    assert (code, rows) == (
        1,
        {
            "fine": ["train", __version__, "2"],
            "no-agent": ["train", "unheard", "?"],
            "no-gpu": ["train", "unheard", "0"],
            "no-plugin": ["train", __version__, "0"],
            "older": ["train", "older", "release"],
            "silent": ["train", "silent", "2"],
        },
    )
    for name, sentence in {
        "no-agent": "No agent has reported since the service was started.",
        "no-gpu": "The node offers no GPU to the cluster",
        "no-plugin": "The node offers no GPU to the cluster",
        "older": "Its agent is of an older release",
        "silent": "Its agent does not report any more.",
        "fine": "driver: ",
    }.items():
        lines = [line for line in text.splitlines() if line.strip().startswith(sentence)]
        assert any(name in line.rpartition("(")[2] for line in lines), f"{name}: {sentence}\n{text}"
