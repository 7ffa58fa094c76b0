"""What is asked for again and again is done once, and again only after what may pass."""

import asyncio

import pytest

from jupyter_gq.backends.kubernetes.api.errors import Exists, Refused, Unreachable
from jupyter_gq.backends.kubernetes.api.resources import PODS
from jupyter_gq.backends.kubernetes.api.writes import CreationState, ObjectRef, Writes
from jupyter_gq.backends.kubernetes.objects.names import WORKLOAD, reservation_name

from .paper import Clock, Paper

pytestmark = pytest.mark.asyncio


class ClusterThatAnswers:
    """Answers a creation with what is next in `answers`: an error, or nothing for success. Deletions are noted."""

    def __init__(self, *answers, there=None):
        self.answers, self.there = list(answers), there
        self.asked, self.deleted, self.at_once, self.most = 0, [], 0, 0
        #: Why nothing can be deleted.
        self.undeletable = ""
        #: What a webhook does to a new object.
        self.hook = lambda body: body

    async def create(self, resource, body):
        self.asked += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if self.answers and (answer := self.answers.pop(0)) is not None:
            raise answer
        return self.hook(body)

    async def get(self, resource, namespace, name):
        return self.there

    async def delete(self, resource, namespace, name, *, uid="", grace=None):
        self.deleted.append(grace)
        if self.undeletable:
            raise Refused(self.undeletable)


def a_pod(name="p", workload="job-1", **meta):
    return {"metadata": {"name": name, "namespace": "t", "labels": {WORKLOAD: workload}, **meta}}


class Bench:
    def __init__(self, cluster, creations=4):
        self.clock, self.cluster, self.seen, self.bodies = Clock(), cluster, [], 0
        self.writes = Writes(cluster, creations=creations, now=self.clock.now, done=lambda: None)

    async def create(self, pod=None):
        """Ask, let it happen, and ask how it went."""
        self.ask(pod or a_pod())
        await self.settle()
        return self.ask(pod or a_pod())

    def ask(self, pod):
        ref = ObjectRef(resource=PODS, namespace="t", name=pod["metadata"]["name"])
        return self.writes.create(ref, lambda: self._body(pod), self.seen.append)

    def _body(self, pod):
        self.bodies += 1
        return pod

    async def settle(self):
        while self.writes._tasks:
            await asyncio.gather(*self.writes._tasks)


async def test_asked_for_twice_it_is_made_once():
    bench = Bench(ClusterThatAnswers())
    assert (await bench.create()).state is CreationState.CREATED
    assert (await bench.create()).state is CreationState.CREATED
    assert (bench.cluster.asked, bench.seen) == (1, [a_pod()])
    bench.writes.forget_creation(ObjectRef(resource=PODS, namespace="t", name="p"))
    await bench.create()
    assert bench.cluster.asked == 2


async def test_what_exists_is_made_if_it_is_ours():
    ours = Bench(ClusterThatAnswers(Exists("it is there"), there=a_pod(uid="u")))
    assert (await ours.create()).state is CreationState.CREATED
    assert ours.seen == [a_pod(uid="u")]
    other = Bench(ClusterThatAnswers(Exists("it is there"), there=a_pod(workload="job-2")))
    creation = await other.create()
    assert creation.state is CreationState.REFUSED
    assert creation.sentence == "There is a pod named p in the namespace t that is not ours. Delete or rename it."
    ending = Bench(ClusterThatAnswers(Exists("it is there"), there=a_pod(deletionTimestamp="now")))
    assert (await ending.create()).state is CreationState.WAITING


async def test_what_a_webhook_makes_unknown_is_deleted_and_refused():
    bench = Bench(ClusterThatAnswers())
    bench.cluster.hook = lambda body: {**body, "metadata": {**body["metadata"], "uid": "u", "labels": {}}}
    creation = await bench.create()
    assert creation.state is CreationState.REFUSED
    assert creation.sentence == (
        f"The cluster changed the pod p at its creation ({WORKLOAD}), so that the service would not know it or count "
        "it right, and it was deleted again. Leave the namespace t out of the webhook or policy that does so."
    )
    assert (bench.cluster.deleted, bench.seen) == ([1], [])


async def test_a_webhook_may_add_what_it_likes():
    bench = Bench(ClusterThatAnswers())
    added = {"labels": {WORKLOAD: "job-1", "team": "x"}, "annotations": {"mesh": "y"}}
    bench.cluster.hook = lambda body: {**body, "metadata": {**body["metadata"], **added}}
    assert (await bench.create()).state is CreationState.CREATED


async def test_why_a_deletion_fails_is_known_and_logged_once(caplog):
    bench = Bench(ClusterThatAnswers())
    ref = ObjectRef(resource=PODS, namespace="t", name="p", uid="u")
    assert bench.writes.deletion_trouble("u") == ""
    bench.cluster.undeletable = "The service may not delete the pod."
    for _ in range(3):
        bench.writes.delete(ref)
        await bench.settle()
        bench.clock.at += 11
    assert len(bench.cluster.deleted) == 3
    assert bench.writes.deletion_trouble("u") == "The service may not delete the pod."
    assert [record.message for record in caplog.records] == ["not deleted yet: p The service may not delete the pod."]
    bench.cluster.undeletable = ""
    bench.writes.delete(ref)
    await bench.settle()
    assert bench.writes.deletion_trouble("u") == ""


async def test_a_refusal_is_not_asked_for_again():
    bench = Bench(ClusterThatAnswers(Refused("exceeded quota")))
    assert (await bench.create()).sentence == "exceeded quota"
    bench.clock.at += 1000
    assert (await bench.create()).state is CreationState.REFUSED
    assert bench.cluster.asked == 1


async def test_what_may_pass_is_tried_again_later_and_later():
    bench = Bench(ClusterThatAnswers(*[Unreachable("busy", status=429)] * 3))
    assert (await bench.create()).sentence == "busy"
    await bench.create()
    assert bench.cluster.asked == 1, "not before its time"
    for number, pause in ((2, 0.6), (3, 1.1), (4, 2.1)):
        bench.clock.at += pause
        await bench.create()
        assert bench.cluster.asked == number
    assert (await bench.create()).state is CreationState.CREATED


async def test_a_server_that_fails_at_it_for_a_minute_refuses_it_and_one_that_is_away_does_not():
    for status, state in ((500, CreationState.REFUSED), (0, CreationState.WAITING)):
        bench = Bench(ClusterThatAnswers(*[Unreachable("failed calling webhook", status=status)] * 20))
        for _ in range(10):
            creation = await bench.create()
            bench.clock.at += 21
        assert creation.state is state


async def test_so_many_are_made_at_one_time_and_no_more():
    bench = Bench(ClusterThatAnswers(), creations=3)
    for number in range(10):
        bench.ask(a_pod(f"p{number}"))
    await bench.settle()
    assert (bench.cluster.asked, bench.cluster.most) == (10, 3)


async def test_what_is_asked_for_again_is_not_put_together_again():
    bench = Bench(ClusterThatAnswers())
    for _ in range(5):
        await bench.create()
    assert bench.bodies == 1


async def test_asking_again_shortens_the_grace_and_never_lengthens_it():
    bench = Bench(ClusterThatAnswers())
    ref = ObjectRef(resource=PODS, namespace="t", name="p", uid="u")
    for grace in (60, 60, 500):
        bench.writes.delete(ref, grace)
        await bench.settle()
    assert bench.cluster.deleted == [60]
    bench.writes.delete(ref, 5)
    bench.writes.delete(ref, 0)
    await bench.settle()
    assert bench.cluster.deleted == [60, 5, 1], "0 would make the cluster forget a pod that still runs"


async def test_a_deletion_that_shows_no_effect_is_asked_for_again():
    bench = Bench(ClusterThatAnswers())
    ref = ObjectRef(resource=PODS, namespace="t", name="p", uid="u")
    ending = ObjectRef(resource=PODS, namespace="t", name="p", uid="u", terminating=True)
    bench.writes.delete(ref)
    bench.clock.at += 11
    bench.writes.delete(ending)
    await bench.settle()
    assert len(bench.cluster.deleted) == 1
    bench.writes.delete(ref)
    await bench.settle()
    assert len(bench.cluster.deleted) == 2


async def test_a_reservation_that_was_made_and_is_gone_before_it_was_seen_is_made_again():
    """The watch may be away when it is made, and when somebody deletes it."""
    cluster = ClusterThatAnswers()
    paper = Paper(writes=lambda clock: Writes(cluster, creations=4, now=clock.now, done=lambda: None))
    paper.slots.claim("n1/0", paper.pools[0], ("job-1", 1))
    paper.report()
    for _ in range(4):
        paper.step()
        await asyncio.gather(*paper.writes._tasks)
    assert cluster.asked == 1
    assert [pod.name for pod in paper.taken] == [reservation_name("n1/0")], "it counts from then on"
    paper.step(31)
    assert paper.slots.failure("n1/0", ("job-1", 1))
    paper.slots.release("n1/0", ("job-1", 1))
    paper.slots.claim("n1/0", paper.pools[0], ("job-2", 1))
    paper.step(31)
    await asyncio.gather(*paper.writes._tasks)
    assert cluster.asked == 2
