"""Worlds for the contract of the backends."""

import pytest

from .small_disk import mounted
from .worlds import LocalWorld, ServersWorld


@pytest.fixture
def local(tmp_path):
    world = LocalWorld(tmp_path)
    yield world
    world.clean_up()


@pytest.fixture
def servers(tmp_path):
    world = ServersWorld(tmp_path)
    yield world
    world.clean_up()


@pytest.fixture(params=["local", "servers"])
def world(request):
    """Each backend in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 512 KiB."""
    with mounted(tmp_path / "disk") as folder:
        yield folder
