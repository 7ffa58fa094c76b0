"""MPS: the daemon is started once and again after it has ended, and only what it serves is promised to programs."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gq.devices.nvidia.mps import MpsDaemon, mps_environment
from jupyter_gq.domain.amount import MiB, MilliGpu
from jupyter_gq.domain.cluster import Device
from tests.driver_fakes import HERE

CONTROL = HERE / "nvidia-cuda-mps-control"
ONE, TWO = (
    Device(id=f"GPU-{index}", index=index, model="A100-40GB", memory=MiB(40_960), pool="p") for index in range(2)
)
QUARTER = MilliGpu(250)


@pytest.fixture
def folder():
    """Return a folder with a short path: a socket has no room for a long one."""
    made = Path("/tmp") / f"gq-mps-{os.getpid()}"
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def daemon(folder):
    return MpsDaemon(folder=folder, devices=("GPU-0", "GPU-1"), which=lambda name: str(CONTROL))


def starts(daemon):
    return (daemon.pipes / "starts").read_text().splitlines()


def test_daemon_is_started_once_for_its_devices_and_found_by_the_next_service(daemon):
    assert daemon.served() == {"GPU-0", "GPU-1"}, "it will serve them from its start on"
    assert (daemon.ensure(), daemon.ensure()) == ("", "")
    assert replace(daemon).ensure() == ""
    options = " --multiuser-server" if os.geteuid() == 0 else ""
    assert starts(daemon) == [f"GPU-0,GPU-1 -d{options}"]
    assert daemon.pipes.stat().st_mode & 0o777 == 0o755, "other users find it"


def test_daemon_that_has_ended_is_started_again(daemon):
    daemon.ensure()
    (daemon.pipes / "daemon").unlink()
    assert daemon.ensure() == ""
    assert len(starts(daemon)) == 2


def connect(daemon, clients):
    """A server of MPS runs, with these clients."""
    servers = daemon.pipes / "servers"
    servers.mkdir(exist_ok=True)
    (servers / "77").write_text(clients)


def test_daemon_without_clients_is_started_anew_for_another_device(daemon):
    daemon.ensure()
    connect(daemon, "")
    grown = replace(daemon, devices=("GPU-0", "GPU-1", "GPU-2"))
    assert grown.served() == {"GPU-0", "GPU-1"}
    assert (grown.ensure(), grown.ensure()) == ("", "")
    assert grown.served() == {"GPU-0", "GPU-1", "GPU-2"}
    assert [line.split()[0] for line in starts(daemon)] == ["GPU-0,GPU-1", "GPU-0,GPU-1,GPU-2"]


def test_daemon_without_a_note_is_noted_when_it_is_found_so_that_a_later_device_is_not_taken_for_served(daemon, folder):
    """Earlier releases wrote no note."""
    daemon.ensure()
    connect(daemon, "123\n")
    (folder / "devices").unlink()
    assert (replace(daemon).ensure(), len(starts(daemon))) == ("", 1)
    assert replace(daemon, devices=("GPU-0", "GPU-1", "GPU-2")).served() == {"GPU-0", "GPU-1"}


def test_daemon_with_a_client_goes_on_as_it_is(daemon):
    daemon.ensure()
    connect(daemon, "123\n")
    grown = replace(daemon, devices=("GPU-1", "GPU-2"))
    assert grown.ensure() == ""
    assert (grown.served(), len(starts(daemon))) == ({"GPU-1"}, 1)
    connect(daemon, "")
    assert (grown.ensure(), grown.served()) == ("", {"GPU-1", "GPU-2"})


def test_daemon_that_does_not_tell_its_clients_is_not_ended(daemon):
    daemon.ensure()
    connect(daemon, "")
    (daemon.pipes / "servers/odd").touch()
    grown = replace(daemon, devices=("GPU-2",))
    assert (grown.ensure(), len(starts(daemon))) == ("", 1)


def test_daemon_that_does_not_end_serves_nothing_new(daemon, folder):
    daemon.ensure()
    (folder / "stays").touch()
    waits = []
    grown = replace(daemon, devices=("GPU-0", "GPU-2"), sleep=waits.append)
    assert (grown.ensure(), grown.served(), len(starts(daemon))) == ("", {"GPU-0"}, 1)
    assert sum(waits) == 5


def test_daemon_that_serves_too_much_goes_on(daemon):
    daemon.ensure()
    fewer = replace(daemon, devices=("GPU-1",))
    assert (fewer.ensure(), fewer.served(), len(starts(daemon))) == ("", {"GPU-1"}, 1)


def test_missing_program_is_told_with_what_to_install(daemon):
    assert "nvidia-cuda-mps-control is not on the search path" in replace(daemon, which=lambda _: None).ensure()


def test_program_that_cannot_be_executed_is_told(daemon, tmp_path):
    assert "MPS cannot run: " in replace(daemon, which=lambda _: str(tmp_path / "none")).ensure()


def test_daemon_that_does_not_start_is_told_with_its_words(daemon, folder):
    folder.mkdir()
    (folder / "refuses").write_text("An instance of this daemon is already running\n")
    assert "it says: An instance of this daemon is already running. Its logs are in" in daemon.ensure()


def test_folder_that_exists_keeps_its_rights(daemon, folder):
    folder.mkdir(mode=0o700)
    daemon.ensure()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_too_long_path_is_told(daemon, tmp_path):
    assert "is too long" in replace(daemon, folder=tmp_path / ("x" * 90)).ensure()


def test_program_gets_its_part_of_memory_and_processors_by_the_id_of_the_device():
    assert mps_environment([ONE], QUARTER, served={"GPU-0"}, pipes=Path("/p")) == {
        "CUDA_MPS_PIPE_DIRECTORY": "/p",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "GPU-0=10240M",
    }


@pytest.mark.parametrize(("devices", "milli"), [([ONE], 1000), ([ONE, TWO], 250), ([TWO], 250), ([], 250)])
def test_whole_devices_and_devices_beside_others_are_used_without_mps(devices, milli):
    assert mps_environment(devices, MilliGpu(milli), served={"GPU-0"}, pipes=Path("/p")) == {}


def test_device_of_unknown_memory_has_no_limit_and_a_tiny_share_has_some_processors():
    found = mps_environment([replace(ONE, memory=MiB(0))], MilliGpu(5), served={"GPU-0"}, pipes=Path("/p"))
    assert found == {"CUDA_MPS_PIPE_DIRECTORY": "/p", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "1"}
