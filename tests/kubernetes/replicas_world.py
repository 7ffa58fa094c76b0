"""The service as the chart installs it, in one replica or two: its pods, its users, its administrator.

Everything is as the chart renders it, with the times of the product; requests go by the Service, to who is ready.
"""

import asyncio
import base64
import contextlib
import time

import httpx
import psycopg
import yaml
from kubernetes.client import CoordinationV1Api

from jupyter_gq.client.outputs.fold import fold
from tests.api.hubs import Hub
from tests.contract.postgresql import PostgresServer, programs_or_skip
from tests.kubernetes.backend_world import make_runtime_class
from tests.kubernetes.chart import at_addresses_of_their_own, rendered
from tests.kubernetes.front import Front
from tests.kubernetes.namespaces import make_claim
from tests.kubernetes.raw import Raw
from tests.kubernetes.waiting import eventually
from tests.patience import scaled
from tests.runner.conftest import PYTHON_KERNEL

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
TWO = {
    "service": {"replicas": 2, "handover": 20},
    "database": {"kind": "postgresql", "postgresql": {"secretName": "database"}},
}


class Installed:
    """The installation, as its users and its administrator see it."""

    def __init__(self, parts, front, server, nodes):
        self.plane, self.made, self.raw, self.hub, self.folder = parts
        self.front, self.server, self.nodes = front, server, nodes
        self.database = server.tcp_url(server.new_database().partition("///")[2].partition("?")[0])
        self.service = f"{self.made.release}-gq-service"
        self._http = httpx.AsyncClient(headers={"Authorization": "token ann"}, timeout=scaled(20))
        self._applied = []

    def apply(self, **values):
        """Install the chart, or upgrade it; its volume is there already."""
        common = {
            "hub": {"url": self.hub.url.removesuffix("/hub/api")},
            "agent": {"enabled": False},
            "training": {"image": "tests/runner"},
            "queues": {"vision": {"quota": "2"}},
            "config": {"extra": EXTRA.format(front=self.front.url)},
        }
        file = self.folder / "values.yaml"
        file.write_text(yaml.safe_dump(common | values))
        for each in rendered(self.made, file):
            if each["metadata"]["name"] == f"{self.made.release}-gq-state":
                continue
            if each["kind"] == "Deployment":
                at_addresses_of_their_own(each)
            self.raw.apply(each)
            self._applied.append(each)

    def add_secret(self, name, key, value):
        """In the namespace of the hub."""
        data = {key: base64.b64encode(value.encode()).decode()}
        about = {"name": name, "namespace": self.made.hub}
        self.raw.apply({"apiVersion": "v1", "kind": "Secret", "metadata": about, "data": data})

    async def close(self):
        """Take away what does not go with the namespaces, and what would work on."""
        await self._http.aclose()
        for each in self._applied:
            if each["kind"].startswith("Cluster") or each["kind"] in ("PriorityClass", "Deployment"):
                self.raw.delete(each)

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

    @contextlib.asynccontextmanager
    async def listened_to(self):
        """Asks all the time whether somebody is ready; gives a list that ends with the longest silence, in seconds."""
        asked, silences, over = f"{self.front.url}/services/jupyter-gq/api/v1/ready", [], asyncio.Event()

        async def listen():
            last = longest = 0.0
            async with httpx.AsyncClient(timeout=scaled(5)) as http:
                last = time.monotonic()  # noqa: TID251 - how long people wait
                while not over.is_set():
                    answered = False
                    with contextlib.suppress(httpx.TransportError):
                        answered = (await http.get(asked, headers={"Connection": "close"})).is_success
                    moment = time.monotonic()  # noqa: TID251 - how long people wait
                    longest = max(longest, moment - last)
                    last = moment if answered else last
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.1):
                            await over.wait()
            silences.append(longest)

        listening = asyncio.create_task(listen())
        try:
            yield silences
        finally:
            over.set()
            await listening

    async def another_leads(self, than):
        """Wait until another one holds the lease."""

        async def changed():
            return await asyncio.to_thread(self.holder) not in ("", than)

        await eventually(changed, lambda: f"another one than {than} leads: {self.story()}", every=0.1)

    def story(self):
        """What to read when something was not seen."""
        told = [f"lease: {self.holder()}"]
        for pod in self.pods():
            name, log = pod.metadata.name, ""
            for node in self.nodes:
                log = log or node.log(self.made.hub, name)
            told.append(f"{name} ({pod.status.phase}): {log[-2000:]}")
        return "\n".join(told)


@contextlib.asynccontextmanager
async def an_installation(plane, made, make_kubelet, folder, *, gpus=1, nodes="ab", server_folder=None):
    """A hub, a PostgreSQL server (in that folder), nodes with these letters; nothing of the chart yet."""
    labels = {"jupyter-gq.org/pool": "train"}
    kubelets = [make_kubelet(f"{made.release}-{letter}", gpus=gpus, labels=labels) for letter in nodes]
    raw, hub, server = Raw(plane), Hub(), PostgresServer(programs_or_skip(), server_folder)
    front = Front(plane, made.hub, f"{made.release}-gq-service")
    installed = None
    try:
        await asyncio.to_thread(server.start)
        await hub.start()
        await front.start()
        make_runtime_class(plane)
        make_claim(plane, made.hub, f"{made.release}-gq-state")
        installed = Installed((plane, made, raw, hub, folder), front, server, kubelets)
        installed.add_secret("hub", "hub.services.jupyter-gq.apiToken", "a token of the hub")
        installed.add_secret("database", "url", installed.database)
        yield installed
    finally:
        if installed is not None:
            await installed.close()
        raw.close()
        await front.stop()
        await hub.stop()
        await asyncio.to_thread(server.remove)
