"""Worlds for the contract of the backends, databases for that of the store."""

import subprocess

import pytest

from jupyter_gq.backends.control_groups import find_own_group
from tests.patience import scaled

from .postgresql import PostgresServer, programs_or_skip
from .small_disk import mounted
from .worlds import LocalWorld, ServersWorld

#: The modules that wait longest. They begin first, so that no process works alone on one of them in the end.
_LONGEST = (
    "test_suspended_share.py",
    "test_killed_service.py",
    "test_suspended_job.py",
    "test_cell_and_share.py",
    "test_elastic_job.py",
    "test_libraries.py",
)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in _LONGEST)


@pytest.fixture(autouse=True)
def _files_are_waited_for(monkeypatch):
    """Folders of owners answer, but this machine may be slower than the product waits for them in a step."""
    for module in ("starts", "task_results"):
        monkeypatch.setattr(f"jupyter_gq.backends.local.{module}.PATIENCE", scaled(60))


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


@pytest.fixture(scope="session")
def _postgresql():
    with PostgresServer(programs_or_skip()) as server:
        server.start()
        yield server


@pytest.fixture
def postgresql(_postgresql):
    """A PostgreSQL server that answers."""
    _postgresql.start_again()
    return _postgresql


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state/service.sqlite"
    return request.getfixturevalue("postgresql").new_database()


@pytest.fixture
def group_world(local, tmp_path):
    """A world whose service may make control groups."""
    folder = tmp_path / "groups"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "cgroup2", "none", str(folder)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"control groups of version 2 cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        local.groups = find_own_group()
        local.backend = local.new_backend()
        yield local
        local.clean_up()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
