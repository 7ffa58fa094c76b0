"""Reading of code without the garbage collector."""

import asyncio
import gc
import threading

import pytest

from jupyter_gq.lab.reading import code_reading
from jupyter_gq.lab.reading.code_reading import read_code
from tests.patience import eventually

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def _collector():
    was_on = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_on else gc.disable)()


async def test_nothing_is_collected_while_code_is_read():
    assert await read_code(lambda text, more: (text, more, gc.isenabled()), "a", more=1) == ("a", 1, False)
    assert gc.isenabled()


async def test_the_collector_is_on_again_after_an_error():
    with pytest.raises(ZeroDivisionError):
        await read_code(lambda: 1 / 0)
    assert gc.isenabled()


async def test_the_collector_is_off_until_the_last_of_several_threads_has_read():
    both, first_ended = threading.Barrier(2), threading.Event()

    def read_first() -> None:
        both.wait()

    def read_last() -> bool:
        both.wait()
        first_ended.wait()
        return gc.isenabled()

    last = asyncio.create_task(read_code(read_last))
    await read_code(read_first)
    first_ended.set()
    assert not await last
    assert gc.isenabled()


async def test_a_collector_that_was_off_stays_off():
    gc.disable()
    await read_code(lambda: None)
    assert not gc.isenabled()


async def test_a_reading_that_does_not_end_pauses_the_collector_for_a_while_only(monkeypatch):
    """Such as one on a file system that does not answer."""
    monkeypatch.setattr(code_reading, "_LONGEST", 0.0)
    is_over = threading.Event()
    reading = asyncio.create_task(read_code(is_over.wait))
    try:
        await asyncio.sleep(0)  # the reading begins
        await eventually(gc.isenabled)
        assert not reading.done()
        gc.disable()  # by somebody else: the end of a pause that is over changes nothing
    finally:
        is_over.set()
    await reading
    assert not gc.isenabled()
