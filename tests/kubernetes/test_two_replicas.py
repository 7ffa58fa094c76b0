"""The chart with two replicas on PostgreSQL: who leads is killed, replaced by a rollout, and drained; jobs go on."""

import signal
import time

import pytest
import pytest_asyncio
from kubernetes.client import AppsV1Api

from tests.kubernetes.replicas_world import TWO, an_installation
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio

#: The lease's duration, and how often a candidate looks.
LEASE, RETRY = 15.0, 2.0
#: Until the readiness probe has seen who leads: its period and its patience; and a busy machine.
SEEN = 5.0 + 3.0 + 5.0


@pytest_asyncio.fixture
async def installed(control_plane, namespace_set, make_kubelet, tmp_path):
    async with an_installation(control_plane, namespace_set, make_kubelet, tmp_path) as made:
        made.apply(**TWO)
        yield made


async def test_of_two_replicas_one_leads_and_jobs_go_on_whatever_becomes_of_it(installed, control_plane, tmp_path):
    mark = control_plane.mark()
    first = await installed.settled()
    assert installed.epoch() == 1
    files = [tmp_path / name for name in ("one", "two", "three")]
    one = await installed.send(files[0])
    await installed.has_begun(one)

    # It is killed. The job writes and ends while nobody leads, and the other one hears of it.
    killed = time.monotonic()  # noqa: TID251
    installed.container(first).signal(signal.SIGKILL)
    files[0].touch()
    assert await installed.another_leads(first, killed) < LEASE + RETRY + 3.0
    second = await installed.settled()
    assert time.monotonic() - killed < LEASE + RETRY + 3.0 + SEEN  # noqa: TID251
    assert installed.epoch() == 2
    await installed.is_done(one)

    # Its node is drained: no budget is in the way, and the lease is given back.
    two = await installed.send(files[1])
    await installed.has_begun(two)
    (pod,) = installed.job_pods()
    old = installed.container(second)
    about = {"metadata": {"name": second, "namespace": installed.made.hub}}
    drained = time.monotonic()  # noqa: TID251
    control_plane.core.create_namespaced_pod_eviction(second, installed.made.hub, about)
    assert await installed.another_leads(second, drained) < LEASE / 2, "sooner than the lease would have ended"
    third = await installed.settled()
    assert (third, installed.epoch(), old.code) == (first, 3, 0)

    # Both are replaced, as by a new release.
    change = {"spec": {"template": {"metadata": {"annotations": {"example.org/release": "next"}}}}}
    leader, rolled = installed.container(third), time.monotonic()  # noqa: TID251
    AppsV1Api(control_plane.client()).patch_namespaced_deployment(installed.service, installed.made.hub, change)
    assert await installed.another_leads(third, rolled) < LEASE, "sooner than the lease would have ended"
    await eventually(lambda: leader.code == 0, "the old leader ends in order")
    await installed.settled()
    assert [each.metadata.uid for each in installed.job_pods()] == [pod.metadata.uid], "the job has noticed nothing"
    files[1].touch()
    three = await installed.send(files[2])
    await installed.has_begun(three)
    files[2].touch()
    await installed.is_done(two)
    await installed.is_done(three)

    await nothing_is_left_and_nothing_was_made_twice(installed, control_plane, mark, (one, two, three))


async def nothing_is_left_and_nothing_was_made_twice(installed, control_plane, mark, jobs):
    await eventually(lambda: not installed.job_pods(), "no pod is left")
    created = control_plane.requests(mark, user=installed.made.service_user, verb="create", resource="pods", status=201)
    assert sorted(request.name for request in created) == sorted(f"gq-{job}-1-0" for job in jobs)
    assert not control_plane.requests(mark, user=installed.made.service_user, status=403), "a right is missing"
