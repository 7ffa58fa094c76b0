"""The lease against a real API server: one leads, another takes its place, and who cannot renew stops."""

import asyncio
import contextlib
import time

import pytest
import pytest_asyncio
from kubernetes.client import ApiException, CoordinationV1Api, RbacAuthorizationV1Api

from jupyter_gq.backends.kubernetes.api.cluster import Cluster
from jupyter_gq.backends.kubernetes.leader.election import Times
from jupyter_gq.backends.kubernetes.leader.lease import Lease, LeaseLost, Seat
from tests.kubernetes.waiting import eventually
from tests.patience import Deadline, scaled

pytestmark = pytest.mark.asyncio

#: As the real ones, at a fifth; on a slow machine, where each request takes longer, more.
TIMES = Times.of(scaled(3))


async def fit():
    return ""


class Candidate:
    """A service that takes the lease and keeps it until it is cut off."""

    def __init__(self, plane, namespaces, identity):
        self.cluster = Cluster.of(plane.config_for(namespaces.service_user), timeout=TIMES.renewed_within, workers=2)
        seat = Seat(namespace=namespaces.hub, name=f"{namespaces.release}-gq-service", identity=identity)
        self.lease = Lease(self.cluster, seat, elapsed=time.monotonic, now=time.time, times=TIMES)  # noqa: TID251
        self.working = None

    def start(self):
        self.working = asyncio.create_task(self._work())

    async def _work(self):
        await self.lease.acquire(fit)
        await self.lease.keep()

    async def vanish(self):
        """As `kill -9` would leave it."""
        self.working.cancel()
        await asyncio.gather(self.working, return_exceptions=True)


@pytest.fixture(scope="module")
def rights(control_plane, namespace_set):
    """What the chart gives to the service, no more."""
    name, hub = f"{namespace_set.release}-gq-service", namespace_set.hub
    group = ["coordination.k8s.io"]
    rules = [
        {"apiGroups": group, "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": group, "resources": ["leases"], "resourceNames": [name], "verbs": ["get", "update"]},
    ]
    rbac = RbacAuthorizationV1Api(control_plane.client())
    rbac.create_namespaced_role(hub, {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "gq-service", "namespace": hub}
    role = {"kind": "Role", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    rbac.create_namespaced_role_binding(hub, {"metadata": {"name": name}, "subjects": [subject], "roleRef": role})


@pytest_asyncio.fixture
async def made(control_plane, namespace_set, rights):
    """Makes candidates; never do two of them lead."""
    candidates = []

    def make(identity):
        candidates.append(Candidate(control_plane, namespace_set, identity))
        candidates[-1].start()
        return candidates[-1]

    async def watch():
        while True:
            leading = [each.lease.holder for each in candidates if each.lease.leads]
            assert len(leading) <= 1, leading
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(watch())
    yield make
    assert not watching.done(), watching.exception()
    watching.cancel()
    for candidate in candidates:
        await candidate.vanish()
        candidate.cluster.close()
    with contextlib.suppress(ApiException):
        CoordinationV1Api(control_plane.client()).delete_namespaced_lease(
            f"{namespace_set.release}-gq-service", namespace_set.hub
        )


async def test_one_leads_and_another_takes_its_place_when_it_vanishes_or_gives_it_back(
    made, control_plane, namespace_set
):
    first = made("first")
    await eventually(lambda: first.lease.leads, "the first one leads")
    second, third = made("second"), made("third")
    await eventually(lambda: second.lease.holder == third.lease.holder == "first", "they know who leads")
    await first.vanish()
    renewed = read_lease(control_plane, namespace_set).spec.renew_time
    await eventually(lambda: second.lease.leads or third.lease.leads, "another one leads")
    assert not first.lease.leads
    heir, other = (second, third) if second.lease.leads else (third, second)
    stored = read_lease(control_plane, namespace_set)
    waited = (stored.spec.acquire_time - renewed).total_seconds()
    assert waited > TIMES.duration - 0.1, "not before the lease ran out"  # the clock of these times may be corrected
    assert (stored.spec.holder_identity, stored.spec.lease_transitions) == (heir.lease.holder, 1)
    await heir.vanish()
    await heir.lease.release()
    in_time = Deadline(TIMES.duration)
    await eventually(lambda: other.lease.leads, "the last one leads")
    assert not in_time.is_over(), in_time.describe("the next one leads: what was given back need not run out")


def read_lease(plane, namespaces):
    leases = CoordinationV1Api(plane.client())
    return leases.read_namespaced_lease(f"{namespaces.release}-gq-service", namespaces.hub)


async def test_who_cannot_renew_stops_and_goes_on_when_the_api_server_is_back(made, control_plane):
    leader, other = made("leader"), made("other")
    await eventually(lambda: leader.lease.leads or other.lease.leads, "one leads")
    if other.lease.leads:
        leader, other = other, leader
    control_plane.stop_api()
    try:
        await eventually(lambda: not leader.lease.leads, "it stops")
        await eventually(lambda: "cannot be reached" in leader.lease.failure, "it says why")
    finally:
        await asyncio.to_thread(control_plane.start_api)
    await eventually(lambda: leader.lease.leads or other.lease.leads, "one of them leads again")


async def test_who_finds_another_in_its_place_ends(made, control_plane, namespace_set):
    leader = made("leader")
    await eventually(lambda: leader.lease.leads, "it leads")
    leases = CoordinationV1Api(control_plane.client())
    taken = {"spec": {"holderIdentity": "usurper"}}
    leases.patch_namespaced_lease(f"{namespace_set.release}-gq-service", namespace_set.hub, taken)
    with pytest.raises(LeaseLost, match="usurper leads now"):
        await leader.working
    assert not leader.lease.leads
