"""The chart with two replicas on PostgreSQL: who leads is killed, replaced by a rollout, and drained; jobs go on.

Everything is as the chart renders it, with the times of the product; requests go by the Service, to who is ready.
"""

import asyncio
import base64
import signal
import time

import httpx
import psycopg
import pytest
import pytest_asyncio
import yaml
from kubernetes.client import AppsV1Api, CoordinationV1Api

from jupyter_gq.client.outputs import fold
from tests.api.hubs import Hub
from tests.contract.postgresql import PostgresServer, programs_or_skip
from tests.kubernetes.backend_world import make_runtime_class
from tests.kubernetes.chart import at_addresses_of_their_own, rendered
from tests.kubernetes.front import Front
from tests.kubernetes.raw import Raw
from tests.kubernetes.waiting import eventually
from tests.runner.conftest import PYTHON_KERNEL

pytestmark = pytest.mark.asyncio

#: The lease's duration, and how often a candidate looks.
LEASE, RETRY = 15.0, 2.0
#: Until the readiness probe has seen who leads: its period and its patience; and a busy machine.
SEEN = 5.0 + 3.0 + 5.0
EXTRA = """
import os
c.KubernetesBackend.kubeconfig = os.environ["KUBECONFIG"]
c.KubernetesBackend.service_url = "{front}/services/jupyter-gq/"
"""
WAITS = """
import pathlib, time
print("begun", flush=True)
while not pathlib.Path({file!r}).exists():
    time.sleep(0.05)
print("finished", flush=True)
"""


class Installed:
    """The installation, as its users and its administrator see it."""

    def __init__(self, plane, made, front, database, nodes):
        self.plane, self.made, self.front, self.database, self.nodes = plane, made, front, database, nodes
        self.service = f"{made.release}-gq-service"
        self._http = httpx.AsyncClient(headers={"Authorization": "token ann"}, timeout=20)

    async def close(self):
        await self._http.aclose()

    async def ask(self, method, path, **more):
        """As a user does through the hub's proxy, again while nobody leads."""
        url = f"{self.front.url}/services/jupyter-gq/api/v1/{path}"

        async def answered():
            try:
                answer = await self._http.request(method, url, **more)
            except httpx.TransportError:
                return None
            return None if answer.status_code in (502, 503) else answer

        answer = await eventually(answered, lambda: f"{path} is answered: {self.story()}")
        assert answer.is_success, answer.text
        return answer.json()

    async def send(self, file):
        ref = {"cell_id": "c0", "source_hash": "0" * 64}
        cell = {"cell_type": "code", "id": "c0", "source": WAITS.format(file=str(file)), "metadata": {}, "outputs": []}
        notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell | {"execution_count": None}]}
        manifest = {"notebook_path": "a.ipynb", "cwd": str(file.parent), "kernel": PYTHON_KERNEL, "targets": [ref]}
        wanted = {"queue": "vision", "gpus": "1", "bundle": {"manifest": manifest, "notebook": notebook}}
        return (await self.ask("POST", "jobs", json=wanted))["id"]

    async def printed(self, job):
        page = await self.ask("GET", f"jobs/{job}/outputs?after=0")
        return "".join(output.get("text", "") for output in fold(page["events"]).get("c0", []))

    async def has_begun(self, job):
        async def begun():
            return await self.printed(job) == "begun\n"

        await eventually(begun, lambda: f"{job} has begun: {self.story()}")

    async def is_done(self, job):
        """With its whole output, in its first run."""
        seen = {}

        async def ended():
            seen.update(await self.ask("GET", f"jobs/{job}"))
            return seen["phase"] in ("done", "failed", "canceled")

        await eventually(ended, lambda: f"{job} ends; it was {seen}; {self.story()}")
        assert (seen["phase"], seen["run"]) == ("done", 1), seen
        assert await self.printed(job) == "begun\nfinished\n"

    # --- what the administrator sees

    def pods(self):
        """Pods of the service."""
        selector = "app.kubernetes.io/component=gq-service"
        return self.plane.core.list_namespaced_pod(self.made.hub, label_selector=selector).items

    def job_pods(self):
        return self.plane.core.list_namespaced_pod(self.made.train).items

    def holder(self):
        """The pod that holds the lease; "" = none."""
        leases = CoordinationV1Api(self.plane.client()).list_namespaced_lease(self.made.hub).items
        held = [lease.spec.holder_identity or "" for lease in leases if lease.metadata.name == self.service]
        return "".join(held).rpartition("_")[0]

    def epoch(self):
        with psycopg.connect(self.database) as connection:
            return connection.execute("SELECT epoch FROM leadership").fetchone()[0]

    def container(self, pod):
        """The process of a pod of the service."""
        return next(found for node in self.nodes if (found := node.container(self.made.hub, pod)))

    async def settled(self):
        """The name of the one that leads and is ready, once the other one waits for it."""

        async def one_of_two():
            ready = [name for name, *_ in await asyncio.to_thread(self.front.ready)]
            pods = [pod.metadata.name for pod in await asyncio.to_thread(self.pods)]
            if len(pods) != 2 or ready != [await asyncio.to_thread(self.holder)]:
                return None
            (leader,) = ready
            (other,) = set(pods) - {leader}
            return leader if await self._waits_for(other, leader) else None

        return await eventually(one_of_two, lambda: f"one of two leads: {self.story()}")

    async def _waits_for(self, pod, leader):
        address = self.container(pod).address
        try:
            answer = await self._http.get(f"http://{address}:8089/services/jupyter-gq/api/v1/ready")
        except httpx.TransportError:
            return False
        return answer.status_code == 503 and answer.json()["message"].startswith(f"{leader}_")

    async def another_leads(self, than, since):
        """Seconds from `since` until another one held the lease."""

        async def changed():
            return await asyncio.to_thread(self.holder) not in ("", than)

        await eventually(changed, lambda: f"another one than {than} leads: {self.story()}", every=0.1)
        return time.monotonic() - since  # noqa: TID251 - how long people wait

    def story(self):
        """What to read when something was not seen."""
        told = [f"lease: {self.holder()}"]
        for pod in self.pods():
            name, log = pod.metadata.name, ""
            for node in self.nodes:
                log = log or node.log(self.made.hub, name)
            told.append(f"{name} ({pod.status.phase}): {log[-2000:]}")
        return "\n".join(told)


@pytest_asyncio.fixture
async def installed(control_plane, namespace_set, make_kubelet, tmp_path):
    labels = {"jupyter-gq.org/pool": "train"}
    nodes = [make_kubelet(f"two-{letter}", gpus=1, labels=labels) for letter in "ab"]
    raw, hub, server = Raw(control_plane), Hub(), PostgresServer(programs_or_skip())
    front = Front(control_plane, namespace_set.hub, f"{namespace_set.release}-gq-service")
    made = None
    applied = []
    try:
        await asyncio.to_thread(server.start)
        await hub.start()
        await front.start()
        database = server.tcp_url(server.new_database().partition("///")[2].partition("?")[0])
        make_runtime_class(control_plane)
        for name, key, value in (
            ("hub", "hub.services.jupyter-gq.apiToken", "a token of the hub"),
            ("database", "url", database),
        ):
            data = {key: base64.b64encode(value.encode()).decode()}
            about = {"name": name, "namespace": namespace_set.hub}
            raw.apply({"apiVersion": "v1", "kind": "Secret", "metadata": about, "data": data})
        values = tmp_path / "values.yaml"
        values.write_text(yaml.safe_dump(_values(hub, front)))
        for each in rendered(namespace_set, values):
            if each["kind"] == "Deployment":
                at_addresses_of_their_own(each)
            raw.apply(each)
            applied.append(each)
        made = Installed(control_plane, namespace_set, front, database, nodes)
        yield made
    finally:
        if made is not None:
            await made.close()
        for each in applied:
            if each["kind"].startswith("Cluster") or each["kind"] in ("PriorityClass", "Deployment"):
                raw.delete(each)
        raw.close()
        await front.stop()
        await hub.stop()
        await asyncio.to_thread(server.remove)


def _values(hub, front):
    return {
        "service": {"replicas": 2},
        "database": {"kind": "postgresql", "postgresql": {"secretName": "database"}},
        "hub": {"url": hub.url.removesuffix("/hub/api")},
        "agent": {"enabled": False},
        "training": {"image": "tests/runner"},
        "queues": {"vision": {"quota": "2"}},
        "config": {"extra": EXTRA.format(front=front.url)},
    }


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
