"""The Hub is asked to end a notebook's server until it has heard and the pod is told to go, and not too often."""

import asyncio
from dataclasses import replace

import pytest

from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.runs.run import Run
from jupyter_gq.backends.kubernetes.runs.server_stops import ServerStops
from jupyter_gq.backends.protocol import Launch
from jupyter_gq.domain.errors import BackendError
from tests.builders import a_notebook

from .paper import Clock

pytestmark = pytest.mark.asyncio

POD = PodView(namespace="hub", name="jupyter-ann", uid="u")


class HubHears:
    """Notes whose server it is asked to end; what it does not hear raises."""

    def __init__(self):
        self.asked, self.deaf, self.open = [], False, asyncio.Event()
        self.open.set()

    async def stop(self, user, server):
        self.asked.append(user)
        await self.open.wait()
        if self.deaf:
            raise BackendError("the Hub does not answer")


@pytest.fixture
def hub():
    return HubHears()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stops(hub, clock):
    return ServerStops(hub, clock.now)


def a_run(**fields):
    launch = Launch(workload=a_notebook("ann", id="nb-1"))
    return Run(id="nb-1", number=1, launched_at=0.0, known_at=0.0, launch=launch, **fields)


async def asked(stops, run):
    """Ask, and let the Hub answer."""
    stops.ask(run)
    for _ in range(3):
        await asyncio.sleep(0)


async def test_it_is_asked_once_until_it_answers(stops, hub):
    hub.open.clear()
    run = a_run(pods={0: POD})
    await asked(stops, run)
    await asked(stops, run)
    assert (len(hub.asked), stops.has_accepted(run.key)) == (1, False)
    hub.open.set()
    await asked(stops, run)
    assert (len(hub.asked), stops.has_accepted(run.key)) == (1, True)


@pytest.mark.parametrize("deaf", [False, True])
async def test_a_pod_that_stands_is_asked_for_again_after_a_while(stops, hub, clock, deaf):
    hub.deaf, run = deaf, a_run(pods={0: POD})
    await asked(stops, run)
    assert stops.has_accepted(run.key) is not deaf
    clock.at += 9
    await asked(stops, run)
    assert len(hub.asked) == 1
    clock.at += 1
    await asked(stops, run)
    assert len(hub.asked) == 2


async def test_who_has_no_pod_is_asked_for_until_the_hub_has_heard(stops, hub, clock):
    hub.deaf, run = True, a_run()
    await asked(stops, run)
    hub.deaf = False
    for _ in range(3):
        clock.at += 10
        await asked(stops, run)
    assert len(hub.asked) == 2


async def test_nothing_is_asked_where_the_end_has_begun_already(stops, hub):
    await asked(stops, a_run(pods={0: replace(POD, terminating=True)}))
    run = a_run(pods={0: POD})
    stops.withdraw(run.key)
    await asked(stops, run)
    assert hub.asked == []


async def test_what_is_forgotten_leaves_nothing_behind(stops, hub):
    hub.open.clear()
    run = a_run(pods={0: POD})
    await asked(stops, run)
    stops.forget(run.key)
    hub.open.set()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not stops.has_accepted(run.key)
    stops.withdraw(run.key)
    stops.forget(run.key)
    await asked(stops, run)
    assert len(hub.asked) == 2
    await stops.close()
