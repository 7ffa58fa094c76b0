"""Jobs have the homes of the notebooks and the data of the cluster: pods with both volumes run on a real API server.

Nobody here keeps a pod from writing below the data: a stand-in kubelet mounts nothing. That it is read-only is seen on
the pods as the API server has accepted them. A kubelet obeys that.

A path inside a program means this machine, so the cells know both folders by variables of their pods, in which the
stand-in kubelet replaces the paths of mounts, and only those.
"""

import asyncio
import functools
from dataclasses import replace

import pytest
import pytest_asyncio

from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.settings import KubernetesBackend
from jupyter_gq.client.outputs.fold import fold
from jupyter_gq.domain.mentions import reveal
from tests.kubernetes.job_world import ANN, a_cell, a_service
from tests.kubernetes.namespaces import make_claim
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio

NODE = "gpu-volumes"
BOB, ADMIN = replace(ANN, user="bob"), replace(ANN, user="admin", admin=True)
HOME, DATA = "/home/jovyan", "/data/imagenet"
#: Reads one file of each volume, and writes one into the home.
READS = """
import os, pathlib
home, data = (pathlib.Path(os.environ[name]) for name in ("PLACE_OF_HOME", "PLACE_OF_DATA"))
print((home / "notes.txt").read_text(), (data / "labels.txt").read_text(), sorted(os.listdir(home)))
(home / "answer.txt").write_text("42")
"""


@pytest.fixture(scope="module")
def claims(control_plane, installation, node):
    """The folders of both volumes."""
    found = {}
    for name in ("homes", "datasets"):
        make_claim(control_plane, installation.train, name)
        found[name] = node.claims / installation.train / name
    return found


@pytest_asyncio.fixture
async def installed(control_plane, installation, claims, tmp_path):
    async with a_service(control_plane, installation, tmp_path, **chosen(installation)) as made:
        yield made


def chosen(installation, data="datasets"):
    """The options of the backend as an administrator sets them, with data in the claim of that name."""
    variables = [{"name": "PLACE_OF_HOME", "value": HOME}, {"name": "PLACE_OF_DATA", "value": DATA}]
    options = KubernetesBackend(
        hub_namespace=installation.hub,
        home_volume={"claim": "homes", "path": HOME, "sub_path": "{username}/work"},
        data_volumes=[{"claim": data, "path": DATA, "sub_path": "imagenet"}],
        pod_overrides={"spec": {"containers": [{"name": "runner", "env": variables}]}},
    ).options()
    return {"shared_volumes": options.shared_volumes, "pod_overrides": options.pod_overrides}


async def test_jobs_have_the_home_of_their_owner_and_the_data_and_may_write_to_the_home_alone(
    installed, claims, tmp_path
):
    homes = {caller.user: claims["homes"] / caller.user / "work" for caller in (ANN, BOB)}
    for user, home in homes.items():
        write(home / "notes.txt", f"notes of {user}")
    write(claims["datasets"] / "imagenet" / "labels.txt", "cat dog")
    assert installed.controller.files.describe(ANN, []).reached == [HOME, DATA]

    jobs = installed.controller.jobs
    sent = {caller: jobs.submit(caller, a_cell(READS, tmp_path / "folder"), None)[0].id for caller in (ANN, BOB)}
    for caller, job in sent.items():
        shared = list_shared(await accepted(installed, job))
        assert shared == [
            {"claim": ("homes", None), "mount": (HOME, f"{caller.user}/work", None)},
            {"claim": ("datasets", True), "mount": (DATA, "imagenet", True)},
        ]
    for caller, job in sent.items():
        view = functools.partial(jobs.show, caller, job)
        await eventually(lambda view=view: view().phase == "done", lambda view=view: f"done: {view()}")
        assert text(installed, caller, job) == f"notes of {caller.user} cat dog ['notes.txt']\n"
        assert (homes[caller.user] / "answer.txt").read_text() == "42", "what it wrote outlives its pod"


async def test_a_job_whose_claim_is_missing_says_which_one(control_plane, installation, claims, tmp_path):
    options = chosen(installation, data="forgotten")
    async with a_service(control_plane, installation, tmp_path, **options) as installed:
        job = installed.send(READS, tmp_path / "folder")
        missing = 'yet: 0/1 nodes are available: persistentvolumeclaim "forgotten" not found.'
        await eventually(lambda: missing in reveal(installed.job(job).sentence), lambda: str(installed.job(job)))


def write(file, content):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def text(installed, caller, job):
    outputs = fold(installed.controller.jobs.read_outputs(caller, job, 0).events).get("target", [])
    return "".join(output.get("text", "") for output in outputs)


async def accepted(installed, job):
    """The only pod of that job, as the API server has it."""
    core, namespace = installed.world.plane.core, installed.world.namespaces.train
    selector = f"{names.WORKLOAD}={job}"

    async def found():
        return (await asyncio.to_thread(core.list_namespaced_pod, namespace, label_selector=selector)).items

    (pod,) = await eventually(found, lambda: f"a pod: {installed.controller.jobs.show(ADMIN, job)}")
    return pod


def list_shared(pod):
    """Claim and mount of each volume that is not the pod's own; None stands for what can be written."""
    claims = {each.name: each.persistent_volume_claim for each in pod.spec.volumes if each.persistent_volume_claim}
    mounts = [each for each in pod.spec.containers[0].volume_mounts if each.name in claims]
    return [
        {
            "claim": (claims[each.name].claim_name, claims[each.name].read_only),
            "mount": (each.mount_path, each.sub_path, each.read_only),
        }
        for each in mounts
    ]
