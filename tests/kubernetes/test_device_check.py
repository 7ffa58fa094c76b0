"""`jupyter-gq check-devices` on a cluster: pods that look, on a node whose container runtime obeys one way, or none."""

from pathlib import Path

import pytest

from jupyter_gq.app import main
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.shares.device_check import DeviceCheck
from jupyter_gq.check_devices import describe_report
from jupyter_gq.domain.pod_pool import Visibility
from tests.kubernetes.backend_world import POOL
from tests.kubernetes.pod_runtime import ROOT

NODE = "gpu-look"
DRIVER = Path(__file__).parent / "drivers"

CONFIG = """
c.Pools.pools = {{"train": {{"nodes": {{"kubernetes.io/hostname": "{node}"}}, "visibility": "{visibility}"}}}}
c.KubernetesBackend.installation = "{release}"
c.KubernetesBackend.hub_namespace = "{hub}"
c.KubernetesBackend.nodes_namespace = "{nodes}"
c.KubernetesBackend.training_namespace = "{train}"
c.KubernetesBackend.kubeconfig = "{kubeconfig}"
c.KubernetesBackend.runner_image = "{image}"
"""


@pytest.fixture(scope="module")
def node(make_kubelet):
    return make_kubelet(NODE, gpus=2, environment={"PYTHONPATH": f"{DRIVER}:{ROOT}"})


@pytest.fixture
def check(control_plane, installation, node, tmp_path, capsys):
    """Runs the command with these settings; returns its exit code, what it said, and what it complained of."""

    def run(*arguments, visibility="env", image="runner"):
        spaces, file = installation, tmp_path / "jupyterhub_config.py"
        places = {"release": spaces.release, "hub": spaces.hub, "nodes": spaces.nodes, "train": spaces.train}
        kubeconfig = control_plane.kubeconfig()
        text = CONFIG.format(node=NODE, visibility=visibility, image=image, kubeconfig=kubeconfig, **places)
        file.write_text(text)
        code = main(["check-devices", "--config", str(file), *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    yield run
    left = control_plane.core.list_namespaced_pod(
        installation.train, label_selector=f"app.kubernetes.io/component={names.CHECKS}"
    )
    assert all(pod.metadata.deletion_timestamp for pod in left.items), "a pod was left behind"


def test_the_way_that_works_is_found_and_named(check):
    code, said, _ = check(visibility="env-cdi")
    lines = [line.split(maxsplit=1) for line in said.splitlines()]
    found = {line[0]: line[1] for line in lines if line[0] in set(Visibility)}
    assert found["env"] == "sees that device and no other"
    assert found["env-cdi"] == found["cdi-annotation"] == "sees no device"
    assert 'violates PodSecurity "restricted' in found["volume-mount"]
    assert "The pool's way, env-cdi, does not work here; env does." in said
    assert said.splitlines()[-1] == (
        f'  "train": {{"nodes": {{"kubernetes.io/hostname": "{NODE}"}}, "visibility": "env"}}'
    )
    assert code == 1
    code, said, _ = check("train", visibility="env")
    assert (code, said.splitlines()[-1]) == (0, "The pool's way, env, works.")


def test_what_cannot_be_tried_is_said(check):
    code, _, complaint = check("other")
    assert (code, complaint) == (2, "jupyter-gq check-devices: There is no pool 'other'. There are: train.\n")
    code, _, complaint = check("--node", "elsewhere")
    assert code == 2
    assert f"elsewhere is no ready node of the pool 'train' that offers nvidia.com/gpu. It has: {NODE}." in complaint
    code, _, complaint = check(image="")
    assert (code, "No image with this package is known." in complaint) == (2, True)
    code, said, _ = check(image="no-runner")
    assert code == 1
    assert "Without one device from the device plugin no way can be tried." in said


@pytest.mark.asyncio
async def test_a_runtime_that_shows_everything_to_everybody_is_found_out(world, node):
    """With the rights that the chart gives."""
    shows_all = {"spec": {"containers": [{"name": "runner", "env": [{"name": "GQ_RUNTIME", "value": "all"}]}]}}
    backend = world.new_backend(pod_overrides=shows_all)
    checking = DeviceCheck(backend.cluster, backend.options)
    assert NODE in [view.name for view in await checking.nodes(POOL)]
    report = await checking.run(NODE, POOL)
    assert not any(report.works(way) for way in Visibility)
    assert "sees 2 devices" in "\n".join(describe_report(report, POOL, {}))
