"""Users of a cluster: they send jobs as on one machine, and start pods of notebook servers as a spawner does."""

import asyncio
import contextlib
import random
from functools import partial
from types import SimpleNamespace

from kubernetes.client import ApiException

from jupyter_gq.client.connection.http import ServiceClient, ServiceError
from jupyter_gq.client.models import TicketRequest, TicketView
from tests.kubernetes.backend_world import create_server_pod
from tests.soak.users import User

from .world import AWAY, ClusterWorld

_POLL = 1.0


class ClusterUser(User):
    """One user with a random source of their own. There are no agents, so all work is for whole GPUs."""

    amounts = ("1", "1", "1", "2")
    _world: ClusterWorld

    async def _use_server(self, client: ServiceClient) -> None:
        """Start a server with a GPU, use it for a while, stop it, and so on, until the time is over."""
        rng = random.Random(f"{self._plan.seed}:{self.name}:server")
        loop = asyncio.get_running_loop()
        until = loop.time() + self._plan.seconds
        longest = max(20.0, self._plan.seconds / 4)
        await asyncio.sleep(rng.uniform(0, longest / 2))
        while loop.time() < until:
            await self._serve(client, until, min(loop.time() + rng.uniform(5, longest), until))
            await asyncio.sleep(max(0.0, min(rng.uniform(1, 20), until - loop.time())))

    async def _serve(self, client: ServiceClient, until: float, stops: float) -> None:
        """Wait for a share until the time is over; keep the pod of the server until `stops`, or until it has ended."""
        ticket = await self._patiently(lambda: client.open_ticket(TicketRequest(server="", gpus="1")))
        self._world.tickets[self.name] = ticket.id
        loop = asyncio.get_running_loop()
        try:
            while ticket.pod is None and ticket.phase != "ended" and loop.time() < until:
                await asyncio.sleep(_POLL)
                ticket = await self._patiently(partial(client.ticket, ticket.id))
            if ticket.pod is not None and await self._start_pod(ticket):
                self._tally.servers_started += 1
                while loop.time() < stops and await asyncio.to_thread(self._has_pod):
                    await asyncio.sleep(_POLL)
        finally:
            await self._delete_pod()
            await self._patiently(lambda: self._close(client, ticket.id))
            del self._world.tickets[self.name]

    async def _start_pod(self, ticket: TicketView) -> bool:
        """Create the pod of the server; return False if it is there, or if the API server is away."""
        core, namespace = self._world.plane.core, self._world.namespaces.hub
        with contextlib.suppress(*AWAY):
            await asyncio.to_thread(create_server_pod, core, namespace, SimpleNamespace(owner=self.name), ticket.pod)
            return True
        return False

    def _has_pod(self) -> bool:
        try:
            pod = self._world.plane.core.read_namespaced_pod(f"jupyter-{self.name}", self._world.namespaces.hub)
        except ApiException as error:
            return error.status != 404
        except AWAY:
            return True
        return pod.status.phase in ("Pending", "Running")

    async def _delete_pod(self) -> None:
        """Delete the pod of the server; return when it is gone."""

        def delete() -> bool:
            core, name, namespace = self._world.plane.core, f"jupyter-{self.name}", self._world.namespaces.hub
            try:
                core.delete_namespaced_pod(name, namespace, grace_period_seconds=1)
            except ApiException as error:
                return error.status == 404
            except AWAY:
                return False
            return False

        while not await asyncio.to_thread(delete):
            await asyncio.sleep(_POLL)

    async def _close(self, client: ServiceClient, ticket: str) -> None:
        try:
            await client.close_ticket(ticket)
        except ServiceError as error:
            if error.status != 404:
                raise
