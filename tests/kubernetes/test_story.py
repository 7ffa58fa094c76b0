"""The story of the product on a cluster: notebooks share a device, a cell trains, a queue reclaims, things break.

`JUPYTER_GQ_OUTAGE`: seconds for which the API server is away in the end (CI: 10; KubeSpawner's own watches die at 51).
"""

import asyncio
import hashlib
import json
import os
import secrets

import pytest
import pytest_asyncio

from jupyter_gq.demo.person import ProductRefused
from tests.cells import KEEPS, MEETS
from tests.kubernetes.rights import CALLS, CLUSTER, HUB, NODES, SELDOM, TRAIN, made
from tests.kubernetes.story_world import Installation, cells, in_thread, printed
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

OUTAGE = float(os.environ.get("JUPYTER_GQ_OUTAGE", "10"))
#: When its tasks have met, it saves its state until it is paused; it ends when it is resumed.
GANG = f"""{KEEPS}{MEETS}
import jupyter_gq
saved = jupyter_gq.checkpoint_dir() / f"rank-{{rank}}"
start = int(saved.read_text()) if saved.exists() else 0
print("from", start, flush=True)
for step in range(start, 10**9):
    keep(saved, step + 1)
    if start or jupyter_gq.should_stop():
        break
    time.sleep(0.02)
"""
#: Runs until there is a file of that name.
UNTIL = """
import pathlib, time
print("begun", flush=True)
while not pathlib.Path({file!r}).exists():
    time.sleep(0.05)
print("finished", flush=True)
"""
#: What the admin allows beside the queues, and what a server has of its own.
CONFIG = """
c.TrainingQueues.secrets = ["HF_*"]
c.KubernetesBackend.user_secret = "gq-{username}"
c.KubeSpawner.environment["EPOCHS"] = "3"
"""
#: The value of ann's secret, which only the Secret of the cluster has.
TOKEN = f"hf_{secrets.token_hex(16)}"
#: Takes along a module, a variable and a secret, waits for a file of that name, and brings back a variable and a file.
TAKES_ALONG = """
import hashlib, os, pathlib, time
import steps
print("begun with", os.environ["HF_TOKEN"], flush=True)
while not pathlib.Path({file!r}).exists():
    time.sleep(0.05)
digest = hashlib.sha256(os.environ["HF_TOKEN"].encode()).hexdigest()
model = dict(weight=steps.weigh(21), epochs=os.environ["EPOCHS"], digest=digest)
pathlib.Path("scores.txt").write_text("0.9")
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installed(control_plane, namespace_set, make_kubelet, tmp_path_factory):
    made = Installation(control_plane, namespace_set, make_kubelet, tmp_path_factory.mktemp("story"), config=CONFIG)
    try:
        await in_thread(made.start)
        await made.ready()
        yield made
    finally:
        await in_thread(made.end)


@pytest.fixture(scope="module")
def _told():
    return set()


@pytest.fixture(autouse=True)
def told(_told, request):
    """The tests that have begun."""
    _told.add(request.node.originalname)
    return _told


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(installed):
    async with installed.person("ann") as person:
        yield person


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bob(installed):
    async with installed.person("bob") as person:
        yield person


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cem(installed):
    async with installed.person("cem") as person:
        yield person


async def send(person, source, **options):
    """Send a cell from this person's notebook; return the job's id."""
    notebook = cells(source)
    await person._lab("PUT", "api/contents/n.ipynb", {"type": "notebook", "content": notebook})
    kernel = await person.start_kernel("n.ipynb")
    sent = await person.send(notebook, "n.ipynb", kernel, "c0", **{"name": "cell", "gpus": "1", **options})
    return sent["id"]


async def test_two_notebooks_share_one_reserved_device_and_a_third_has_none(installed, ann, bob, cem):
    await eventually(
        lambda: _may_choose(ann, "0.5"), lambda: f"the agent has reported the device: {installed.story()}", 30
    )
    await asyncio.gather(ann.start_server("0.5"), bob.start_server("0.5"), cem.start_server("0"))
    seen = set()
    for person in (ann, bob):
        kernel = await person.start_kernel("look.ipynb")
        code = "import os; print(os.environ['NVIDIA_VISIBLE_DEVICES'], os.environ['JUPYTER_GQ_GPUS'])"
        seen.add((await person.run_cell(kernel, code)).strip())
        told = installed.said_by_server(person.name)
        assert (
            "kernels start although this server's GPUs were not checked: The driver of this node does not tell" in told
        )
    assert seen == {"GPU-sim-story-build-0 0.5"}
    assert len(installed.reservations()) == 1


async def test_a_cell_is_sent_from_a_notebook_without_a_gpu_and_its_output_comes_back(installed, cem):
    job = await send(cem, "print(6 * 7)", queue="vision")
    done = await installed.job_is(cem, job, "done", "failed")
    assert done["phase"] == "done", done["sentence"]
    assert await printed(cem, job) == "42\n"
    notebook = await cem.ask_service("GET", f"jobs/{job}/notebook")
    assert notebook["cells"][0]["outputs"][0]["text"] in ("42\n", ["42\n"])
    await eventually(lambda: not installed.job_pods(job), "nothing of the job is left")
    (server,) = (await cem.ask_service("GET", "notebooks"))["notebooks"]
    assert server["phase"] == "running", server
    await cem.stop_server()


async def test_a_pod_has_the_cpu_and_memory_that_its_job_asks_for_or_else_its_queue_says(installed, ann, bob, tmp_path):
    file = tmp_path / "go"
    until = UNTIL.format(file=str(file))
    anns = await send(ann, until, queue="vision", cpus="0.5", memory="256 MiB")
    bobs = await send(bob, until, queue="nlp")
    for person, job in ((ann, anns), (bob, bobs)):
        await installed.job_is(person, job, "running", "failed")
    assert _resources(installed, anns) == ({"cpu": "500m", "memory": "256Mi"}, {"memory": "256Mi"})
    assert _resources(installed, bobs) == ({"cpu": "1", "memory": "512Mi"}, {"memory": "512Mi"})
    with pytest.raises(ProductRefused, match="no such node of the pool train has more than 32 CPU cores"):
        await send(ann, until, queue="vision", cpus=33)
    file.touch()
    for person, job in ((ann, anns), (bob, bobs)):
        assert (await installed.job_is(person, job, "done", "failed"))["phase"] == "done"


def _resources(installed, job):
    """Requests and limits of the job's only pod, beside its GPUs."""
    (pod,) = installed.job_pods(job)
    resources = pod.spec.containers[0].resources
    return tuple(
        {name: amount for name, amount in side.items() if name in ("cpu", "memory")}
        for side in (resources.requests, resources.limits)
    )


async def test_what_a_cell_takes_along_and_brings_back_goes_by_the_users_server_and_its_secret_nowhere_else(
    installed, ann, tmp_path
):
    core, train = installed.plane.core, installed.spaces.train
    secret = {"metadata": {"name": "gq-ann"}, "stringData": {"HF_TOKEN": TOKEN}}
    await in_thread(core.create_namespaced_secret, train, secret)
    free, go = tmp_path / "free", tmp_path / "go"
    fills = await send(ann, UNTIL.format(file=str(free)), queue="vision", tasks=2)
    await installed.job_is(ann, fills, "running", "failed")

    notebook = cells(TAKES_ALONG.format(file=str(go)), "print(model)")
    await _keep(ann, "digits", {"type": "directory"})
    await _keep(ann, "digits/n.ipynb", {"type": "notebook", "content": notebook})
    await _keep(ann, "digits/steps.py", _module("2 * number"))
    kernel = await ann.start_kernel("digits/n.ipynb")
    proposed = await _plan(ann, notebook, kernel)
    job = (await ann.send(notebook, "digits/n.ipynb", kernel, "c0", queue="vision", gpus="1", **proposed))["id"]
    await _keep(ann, "digits/steps.py", _module("1 / 0"))

    held = await ann.ask_extension("PATCH", f"jobs/{job}", {"held": True})
    assert (held["phase"], held["held_since"] is not None) == ("waiting", True), held
    free.touch()
    await installed.job_is(ann, fills, "done", "failed")
    await eventually(lambda: not installed.job_pods(fills), "both GPUs are free")
    assert (await ann.job(job))["phase"] == "waiting", "it is held"
    await ann.ask_extension("PATCH", f"jobs/{job}", {"held": False})
    await eventually(lambda: _said(ann, job, "begun"), lambda: f"it runs: {installed.story()}")
    (pod,) = installed.job_pods(job)
    shown = json.dumps(core.api_client.sanitize_for_serialization(pod))
    go.touch()
    done = await installed.job_is(ann, job, "done", "failed")
    assert (done["phase"], done["run"]) == ("done", 1), done

    loads = f"import json, jupyter_gq\nprint(json.dumps(jupyter_gq.result({job!r}, 'model')))"
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    assert json.loads(await ann.run_cell(kernel, loads)) == {"weight": 42, "epochs": "3", "digest": digest}
    brings = f"jupyter_gq.job({job!r}).download('scores.txt')\nprint(open('scores.txt').read())"
    assert await ann.run_cell(kernel, brings) == "0.9\n"
    _has_no_secret(installed, shown)
    assert await printed(ann, job) == "begun with ***\n"
    assert "begun with ***" in (await ann._lab("GET", f"jupyter-gq/jobs/{job}/log")).text
    assert not installed.plane.requests(user=installed.spaces.service_user, resource="secrets")


async def _plan(person, notebook, kernel):
    """What the server proposes for the first cell, as the dialog takes it."""
    asked = {"notebook_path": "digits/n.ipynb", "kernel_id": kernel, "notebook": notebook, "targets": ["c0"]}
    plan = await person.ask_extension("POST", "check", asked)
    assert (plan["returns"], [file["path"] for file in plan["files"]["going"]]) == (["model"], ["steps.py"]), plan
    assert [each["name"] for each in plan["environment"]["variables"] if each["why"] == "read"] == ["EPOCHS"]
    wanted = [each["name"] for each in plan["environment"]["secrets"] if each["wanted"]]
    assert (wanted, (await person.ask_extension("GET", "me"))["secrets"]) == (["HF_TOKEN"], ["HF_*"])
    return {"returns": plan["returns"], "secrets": wanted}


def _has_no_secret(installed, pod):
    """The pod (as JSON) names the place of the secret's value; neither it nor what is kept of the job has the value."""
    assert '"secretKeyRef": {"key": "HF_TOKEN", "name": "gq-ann"' in pod, pod
    assert TOKEN not in pod
    kept = installed.everything_kept()
    assert [place for place, content in kept.items() if TOKEN.encode() in content] == []
    assert any(b"begun with ***" in content for place, content in kept.items() if "sqlite" in place), [*kept]


def _module(value):
    """A file with the only function of a module of the notebook's folder."""
    return {"type": "file", "format": "text", "content": f"def weigh(number):\n    return {value}\n"}


async def _keep(person, path, model):
    """Save a file of this person's, as the lab does."""
    (await person._lab("PUT", f"api/contents/{path}", model)).raise_for_status()


async def test_an_over_quota_gang_gives_way_and_goes_on(installed, ann, bob, tmp_path):
    seen = tmp_path / "seen"
    gang = await send(ann, GANG, queue="vision", tasks=2)
    running = await installed.job_is(ann, gang, "running", "failed")
    assert running["over_quota"] == "1", running
    await eventually(lambda: _said(ann, gang, "met rank 1 of 2\nfrom 0"), "both tasks met")
    bobs = await send(bob, UNTIL.format(file=str(seen)), queue="nlp")
    paused = await installed.job_is(ann, gang, "paused", "failed")
    assert "nlp" in paused["sentence"], paused
    assert "needed its 1 GPU back" in paused["sentence"], paused
    seen.touch()
    assert (await installed.job_is(bob, bobs, "done", "failed"))["phase"] == "done"
    resumed = await installed.job_is(ann, gang, "done", "failed")
    assert (resumed["phase"], resumed["run"]) == ("done", 2), resumed
    told = await printed(ann, gang)
    assert told.count("met rank 1") == 2, told
    assert not told.endswith("from 0\n"), told


async def test_a_lost_node_costs_a_run_and_nothing_is_doubled(installed, ann, tmp_path):
    file = tmp_path / "go"
    job = await send(ann, UNTIL.format(file=str(file)), queue="vision")
    await installed.job_is(ann, job, "running")
    await eventually(lambda: _said(ann, job, "begun"), "it has begun")
    (pod,) = installed.job_pods(job)
    lost = next(node for node in installed.nodes.values() if node.name == pod.spec.node_name)
    await in_thread(lost.power_off)
    again = await installed.job_is(ann, job, "running", run=2)
    assert again["node"] != lost.name
    await in_thread(lost.restart)
    await eventually(lambda: len(installed.job_pods(job)) == 1, "what was lost is tidied away", 120)
    file.touch()
    assert (await installed.job_is(ann, job, "done", "failed"))["phase"] == "done"
    assert (await printed(ann, job)).count("finished") == 1


async def test_service_and_api_server_go_away_and_nothing_is_lost(installed, ann, tmp_path):
    file = tmp_path / "go"
    job = await send(ann, UNTIL.format(file=str(file)), queue="vision")
    await installed.job_is(ann, job, "running")
    await in_thread(installed.kill_service)
    await in_thread(installed.plane.stop_api)
    await in_thread(installed.start_service)
    await asyncio.sleep(OUTAGE)  # what is looked at is an outage of that length
    file.touch()
    await in_thread(installed.plane.start_api)
    await installed.ready()
    done = await installed.job_is(ann, job, "done", "failed")
    assert (done["phase"], done["run"]) == ("done", 1), (done["sentence"], done["error"])
    assert (await printed(ann, job)).count("finished") == 1


async def test_in_the_end_nothing_is_left(installed, ann, bob):
    for person in (ann, bob):
        await person.stop_server()
    await eventually(lambda: not installed.pods("hub") and not installed.pods("train"), "no notebook, no job")
    await eventually(lambda: not installed.reservations(), "no device is held", 120)
    assert (await ann.ask_service("GET", "me"))["used"] == "0"


async def test_there_is_no_right_that_the_service_did_not_use(installed, told, request):
    whole = {name for name in vars(request.module) if name.startswith("test_")}
    if told < whole:
        pytest.skip("only the whole story needs all rights")
    spaces = installed.spaces
    rooms = {spaces.hub: HUB, spaces.nodes: NODES, spaces.train: TRAIN, "": CLUSTER}
    used = made(installed.plane.requests(user=spaces.service_user), rooms)
    assert {(call.room, call.verb, call.resource) for call in {*CALLS} - {*SELDOM}} - used == set()


async def _may_choose(person, gpus):
    choices = (await person.ask_service("GET", "me"))["choices"]
    return any(choice["gpus"] == gpus and choice["starts_now"] for choice in choices)


async def _said(person, job, text):
    return text in await printed(person, job)
