"""A service of a cluster sends the notices that its settings name, also of what ended while no service ran."""

import contextlib
import json

import pytest

from jupyter_gq.api.auth import HubAuthenticator
from jupyter_gq.api.listener import Listener
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.demo.processes import free_port
from jupyter_gq.service import SchedulerService
from tests.notice_servers import http_server, mail_server
from tests.unit.controller.world import ANN, World

pytestmark = pytest.mark.asyncio

#: The API server of the cluster does not answer: notices need the store and the ways only.
CONFIG = """
c.SchedulerService.backend = "kubernetes"
c.SchedulerService.leader_election = False
c.SchedulerService.database_url = "sqlite:///{database}"
c.KubernetesBackend.kubeconfig = {kubeconfig!r}
c.KubernetesBackend.installation = "gq"
c.KubernetesBackend.hub_namespace = "hub"
c.Pools.pools = {{"build": {{"nodes": {{"pool": "build"}}}}, "train": {{"nodes": {{"pool": "train"}}}}}}
c.Pools.build, c.Pools.train = "build", "train"
c.TrainingQueues.queues = {{"vision": {{"quota": 1, "groups": ["vision"]}}}}
c.Notifications.webhook = "http://127.0.0.1:{web}/hooks/of-the-test"
c.Notifications.mail_address = "{{username}}@example.org"
c.Notifications.mail_sender = "gpu@example.org"
c.Notifications.mail_server = "127.0.0.1:{mail}"
c.Notifications.mail_security = "none"
c.Notifications.min_minutes = 0
"""


def write_kubeconfig(path):
    cluster = {"name": "away", "cluster": {"server": f"http://127.0.0.1:{free_port()}"}}
    context = {"name": "away", "context": {"cluster": "away", "user": "away"}}
    document = {"clusters": [cluster], "contexts": [context], "users": [{"name": "away", "user": {}}]}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "away", **document}))
    return str(path)


@contextlib.asynccontextmanager
async def cluster_service(config):
    """The parts of a service of a cluster, put together as when it starts."""
    service = SchedulerService()
    service.initialize(["--config", str(config)])
    with contextlib.closing(HubAuthenticator("http://hub", "")) as authenticator:
        listener = Listener(url=f"http://127.0.0.1:{free_port()}", prefix="/gq/", authenticator=authenticator)
        async with service._on_a_cluster(listener) as parts:
            yield parts.controller


async def test_the_end_of_a_job_on_a_cluster_is_told_by_webhook_and_mail(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_GQ_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("JUPYTERHUB_API_URL", f"http://127.0.0.1:{free_port()}")
    world = World(tmp_path)
    world.clock.forward(SystemClock().now() - world.clock.now() - 600)  # of what ended long ago nobody is told
    config = tmp_path / "jupyterhub_config.py"
    async with http_server(b"HTTP/1.1 204 No Content\r\n\r\n") as (web, requests), mail_server() as (mail, _, mails):
        database, kubeconfig = tmp_path / "service.sqlite", write_kubeconfig(tmp_path / "kubeconfig")
        config.write_text(CONFIG.format(database=database, kubeconfig=kubeconfig, web=web, mail=mail))
        async with cluster_service(config) as controller:
            await controller.job_notices.deliver()
        world.sql.take_over()
        job = world.send(ANN, "vision")
        await world.step(seconds=600)
        world.backend.end(job)
        await world.step(seconds=0)
        async with cluster_service(config) as controller:
            await controller.job_notices.deliver()
    (request,), (letter,) = requests, mails
    document = json.loads(request.partition(b"\r\n\r\n")[2])
    assert (document["job"], document["owner"], document["phase"]) == (job, "ann", "done")
    assert b"To: ann@example.org" in letter
    assert job.encode() in letter
