"""The chart with two replicas on PostgreSQL: who leads is killed, replaced by a rollout, and drained; jobs go on."""

import signal

import pytest
import pytest_asyncio
from kubernetes.client import AppsV1Api

from tests.kubernetes.replicas_world import TWO, an_installation
from tests.kubernetes.waiting import eventually
from tests.patience import Deadline, scaled

pytestmark = pytest.mark.asyncio

#: The lease's duration, and how often a candidate looks.
LEASE, RETRY = 15.0, 2.0
#: What one that leads says when it ends in order: the next one need not wait until the lease ends.
GIVEN_BACK = "the lease is given back"
#: How long one that is told to end works on.
HANDOVER = TWO["service"]["handover"]
#: Until the readiness probe has seen who leads: its period and its patience.
SEEN = 5.0 + 3.0
#: Seconds that a quiet machine needs beside these times, in all steps together.
SLACK = 5.0


@pytest_asyncio.fixture
async def installed(control_plane, namespace_set, make_kubelet, tmp_path):
    async with an_installation(control_plane, namespace_set, make_kubelet, tmp_path) as made:
        made.apply(**TWO)
        yield made


async def test_of_two_replicas_one_leads_and_jobs_go_on_whatever_becomes_of_it(installed, control_plane, tmp_path):
    mark, files = control_plane.mark(), [tmp_path / name for name in ("one", "two", "three")]
    first = await installed.settled()
    assert installed.epoch() == 1
    one = await installed.send(files[0])
    await installed.has_begun(one)
    # The job writes and ends while nobody leads, and the next one hears of it.
    second = await after_a_kill(installed, first, files[0].touch)
    assert installed.epoch() == 2
    await installed.is_done(one)

    two = await installed.send(files[1])
    await installed.has_begun(two)
    (pod,) = installed.job_pods()
    third = await after_a_drain(installed, second)
    assert installed.epoch() == 3
    last = await after_a_rollout(installed, third)
    assert [each.metadata.uid for each in installed.job_pods()] == [pod.metadata.uid], "the job has noticed nothing"
    files[1].touch()
    await installed.is_done(two)

    # What was promised is kept, also by the next one.
    three = await installed.send(files[2])
    await after_a_kill(installed, last, files[2].touch)
    await installed.is_done(three)

    await eventually(lambda: not installed.job_pods(), "no pod is left")
    service = installed.made.service_user
    created = control_plane.requests(mark, user=service, verb="create", resource="pods", status=201)
    assert sorted(request.name for request in created) == sorted(f"gq-{job}-1-0" for job in (one, two, three))
    assert not control_plane.requests(mark, user=service, status=403), "a right is missing"


async def after_a_kill(installed, leader, then):
    """It is gone without a word, and begins anew at the end of the line. The name of the next one."""
    led, ready = (Deadline(SLACK, promised=promised) for promised in (LEASE + RETRY, LEASE + RETRY + SEEN))
    installed.container(leader).signal(signal.SIGKILL)
    then()
    await installed.another_leads(leader)
    assert not led.is_over(), led.describe("another one leads")
    following = await installed.settled()
    assert not ready.is_over(), ready.describe("another one leads and is ready")
    return following


async def after_a_drain(installed, leader):
    """As `kubectl drain` does: no budget is in the way, and the lease is given back."""
    led, old = Deadline(SLACK, promised=HANDOVER + RETRY), installed.container(leader)
    about = {"metadata": {"name": leader, "namespace": installed.made.hub}}
    installed.plane.core.create_namespaced_pod_eviction(leader, installed.made.hub, about)
    await installed.another_leads(leader)
    assert not led.is_over(), led.describe("another one leads, sooner than the lease would have ended")
    following = await installed.settled()
    assert old.code == 0
    assert GIVEN_BACK in old.log.read_text()
    return following


async def after_a_rollout(installed, leader):
    """Both are replaced, as by a new release, whose image takes its time; the old leader works on meanwhile."""
    led, old = Deadline(SLACK, promised=HANDOVER + RETRY), installed.container(leader)
    before = {pod.metadata.name for pod in installed.pods()}
    change = {"spec": {"template": {"spec": {"containers": [{"name": "service", "image": "slow/service:next"}]}}}}
    async with installed.listened_to() as silences:
        AppsV1Api(installed.plane.client()).patch_namespaced_deployment(installed.service, installed.made.hub, change)
        await eventually(lambda: len(running(installed, before)) == 2, "both new pods run")
        assert old.code is None, "the old leader has ended before anybody could follow it"
        await installed.another_leads(leader)
        assert not led.is_over(), led.describe("another one leads, sooner than the lease would have ended")
        await eventually(lambda: old.code == 0, "the old leader ends in order")
        following = await installed.settled()
    print(f"a new release: nobody was ready for {silences[0]:.1f} s")
    assert GIVEN_BACK in old.log.read_text()
    assert silences[0] < SEEN + scaled(SLACK), "nobody was ready for longer than a change of the leader takes"
    return following


def running(installed, others):
    """Pods of the service that run, but those."""
    return [pod for pod in installed.pods() if pod.metadata.name not in others and pod.status.phase == "Running"]
