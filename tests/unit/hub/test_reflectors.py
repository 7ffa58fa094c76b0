"""A view of the cluster that comes back after an outage."""

import asyncio

import pytest
import pytest_asyncio

from jupyter_gq.hub.kubernetes.reflectors import ReflectorReplacements, is_alive

pytestmark = pytest.mark.asyncio


class Reflector:
    """As KubeSpawner's: lists, then watches. `api` says whether it is there."""

    def __init__(self, api):
        self.api = api
        self.first_load_future = asyncio.get_running_loop().create_future()
        self.watch_task = None
        self.stopped = False

    async def start(self):
        await self.api.wait()
        if self.api.away:
            self.first_load_future.set_exception(ConnectionError("away"))
            raise ConnectionError("away")
        self.first_load_future.set_result(None)
        self.watch_task = asyncio.create_task(asyncio.sleep(3600))

    async def stop(self):
        self.stopped = True
        if self.watch_task:
            self.watch_task.cancel()
            await asyncio.wait([self.watch_task])


class Api:
    """Answers once it is let go."""

    def __init__(self):
        self.away, self.made, self.gate = False, [], asyncio.Event()
        self.gate.set()

    async def wait(self):
        await self.gate.wait()

    def make(self):
        self.made.append(Reflector(self))
        return self.made[-1]


@pytest_asyncio.fixture
async def api():
    api = Api()
    yield api
    for each in api.made:
        await each.stop()


async def test_a_living_one_is_kept_and_one_that_gave_up_is_replaced(api):
    reflectors, replacements = {}, ReflectorReplacements(pause=0)
    first = await replacements.ensure_alive(reflectors, "pods", api.make, replace=False)
    assert await replacements.ensure_alive(reflectors, "pods", api.make, replace=False) is first
    first.watch_task.cancel()
    await asyncio.wait([first.watch_task])
    second = await replacements.ensure_alive(reflectors, "pods", api.make, replace=False)
    assert second is not first
    assert first.stopped
    assert reflectors == {"pods": second}


async def test_while_the_api_is_away_the_old_view_stays_and_nothing_is_forgotten(api):
    reflectors, replacements = {}, ReflectorReplacements(pause=0)
    old = await replacements.ensure_alive(reflectors, "pods", api.make, replace=False)
    old.watch_task.cancel()
    await asyncio.wait([old.watch_task])
    api.away = True
    for _ in range(3):
        with pytest.raises(ConnectionError):
            await replacements.ensure_alive(reflectors, "pods", api.make, replace=False)
        assert reflectors == {"pods": old}
    api.away = False
    assert is_alive(await replacements.ensure_alive(reflectors, "pods", api.make, replace=False))


async def test_a_first_list_that_fails_is_not_for_good(api):
    """KubeSpawner keeps such a reflector, and every later start fails with its error."""
    reflectors, replacements = {}, ReflectorReplacements(pause=0)
    api.away = True
    with pytest.raises(ConnectionError):
        await replacements.ensure_alive(reflectors, "pods", api.make, replace=False)
    failed = api.made[-1]
    assert not is_alive(failed)
    reflectors["pods"] = failed
    api.away = False
    assert await replacements.ensure_alive(reflectors, "pods", api.make, replace=False) is not failed


async def test_all_who_ask_meanwhile_share_one_attempt_and_none_takes_it_from_the_others(api):
    reflectors, replacements = {}, ReflectorReplacements(pause=0)
    api.gate.clear()
    asking = [
        asyncio.create_task(replacements.ensure_alive(reflectors, "pods", api.make, replace=False)) for _ in range(5)
    ]
    await asyncio.sleep(0)
    asking[0].cancel()
    await asyncio.sleep(0)
    api.gate.set()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert set(answers[1:]) == {reflectors["pods"]}
    assert len(api.made) == 1


async def test_one_that_works_is_replaced_when_that_is_asked_for(api):
    reflectors, replacements = {}, ReflectorReplacements(pause=0)
    first = await replacements.ensure_alive(reflectors, "pods", api.make, replace=False)
    assert await replacements.ensure_alive(reflectors, "pods", api.make, replace=True) is not first
    assert first.stopped


async def test_right_after_a_failure_nobody_asks_again(api):
    reflectors, replacements = {}, ReflectorReplacements(pause=3600)
    api.away = True
    for _ in range(3):
        with pytest.raises(ConnectionError):
            await replacements.ensure_alive(reflectors, "pods", api.make, replace=False)
    assert len(api.made) == 1
    with pytest.raises(ConnectionError):
        await replacements.ensure_alive(reflectors, "events", api.make, replace=False)
    assert len(api.made) == 2, "another view may work"
