"""The story's world, with a real store in a temporary file."""

import pytest

from .world import World


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.close()
