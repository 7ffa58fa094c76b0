"""From SQLite to PostgreSQL while a job runs, step by step as docs/how-to/use-postgresql.md says."""

import contextlib
import re
from pathlib import Path

import pytest
import yaml
from kubernetes.client import AppsV1Api

from tests.kubernetes.raw import Raw
from tests.kubernetes.replicas_world import TWO, an_installation
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-postgresql.md"


def the_pod_of_the_page(made):
    """For this release."""
    (found,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    pod = yaml.safe_load(
        found.replace("gq-gq-state", f"{made.release}-gq-state").replace("gq-database, key", "database, key")
    )
    pod["metadata"]["namespace"] = made.hub
    return pod


async def test_the_pod_of_the_page_may_run_where_a_site_holds_everything_to_the_strictest_level(
    control_plane, namespace_set
):
    pod = the_pod_of_the_page(namespace_set)
    pod["metadata"]["namespace"] = namespace_set.train
    pod["spec"]["serviceAccountName"] = "gq-runner"
    with contextlib.closing(Raw(control_plane)) as raw:
        answer = raw.dry_run(pod)
    assert answer.is_success, answer.text


async def test_a_job_goes_on_over_the_move_and_two_replicas_have_all_that_one_had(
    control_plane, namespace_set, make_kubelet, tmp_path
):
    async with an_installation(control_plane, namespace_set, make_kubelet, tmp_path) as installed:
        installed.apply()
        file = tmp_path / "go"
        job = await installed.send(file)
        await installed.has_begun(job)

        apps, made = AppsV1Api(control_plane.client()), installed.made
        apps.patch_namespaced_deployment_scale(installed.service, made.hub, {"spec": {"replicas": 0}})
        await eventually(lambda: not installed.pods(), "the service has ended")
        file.touch()
        pod = the_pod_of_the_page(made)
        installed.raw.apply(pod)
        name, read = pod["metadata"]["name"], control_plane.core.read_namespaced_pod
        await eventually(
            lambda: read(name, made.hub).status.phase == "Succeeded",
            lambda: [node.log(made.hub, name) for node in installed.nodes],
        )
        installed.apply(**TWO)
        await installed.settled()
        await installed.is_done(job)
        again = await installed.send(file)
        await installed.is_done(again)
