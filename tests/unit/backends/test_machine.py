"""CPU cores and memory of a machine are its own, or less if control groups limit the service."""

import os

import pytest
from traitlets import TraitError

from jupyter_gq.backends.enforcers import Enforcers
from jupyter_gq.backends.local import machine
from jupyter_gq.backends.local.settings import LocalBackend
from tests.fakes.driver import FakeDriver
from tests.fakes.time_and_death import FixedClock

CORES = len(os.sched_getaffinity(0)) * 1000


def a_root(folder, *, group="0::/user/service\n", **limits):
    """Return the root of a file system of a machine with 16 GiB and limits such as `user__memory_max="max"`."""
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/meminfo").write_text("MemFree: 12 kB\nMemTotal:       16777216 kB\n")
    if group is not None:
        (folder / "proc/self/cgroup").write_text(group)
    for path, text in limits.items():
        *names, controller, what = path.split("_")
        file = folder.joinpath("sys/fs/cgroup", *filter(None, names), f"{controller}.{what}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return folder


def test_whole_machine_counts_without_limits(tmp_path):
    root = a_root(tmp_path, user_service_memory_max="max", user_service_cpu_max="max 100000")
    assert (machine.measure_memory(root), machine.count_cpus(root)) == (16384, CORES)


def test_smallest_limit_of_the_groups_counts(tmp_path):
    root = a_root(tmp_path, user_service_memory_max=8 * 2**30, user_memory_max=4 * 2**30, user_cpu_max="50000 100000")
    assert (machine.measure_memory(root), machine.count_cpus(root)) == (4096, 500)


def test_limit_beyond_the_machine_has_no_effect(tmp_path):
    root = a_root(tmp_path, user_service_memory_max=64 * 2**30)
    assert machine.measure_memory(root) == 16384


@pytest.mark.parametrize("group", [None, "4:memory:/somewhere\n", ""])
def test_whole_machine_counts_without_control_groups_of_version_2(tmp_path, group):
    assert machine.measure_memory(a_root(tmp_path, group=group, memory_max=2**30)) == 16384


def test_settings_override_the_measured_amounts(tmp_path):
    backend = LocalBackend(cpus="1.5", memory="2 GiB").backend(
        state_dir=tmp_path, probe=_NoDevices(), clock=FixedClock(), service_url=""
    )
    (node,) = backend.nodes()
    assert (node.cpu_milli, node.memory) == (1500, 2048)


@pytest.mark.parametrize(("trait", "value"), [("cpus", "many"), ("memory", "2 X")])
def test_malformed_amount_is_refused_with_the_setting_and_the_value(trait, value):
    with pytest.raises(Exception, match=rf"c\.LocalBackend\.{trait} = '{value}': it is not a number; write"):
        LocalBackend(**{trait: value})


@pytest.mark.parametrize("value", [["0"], ["GPU-1", "MIG-5"], [""]])
def test_device_of_mps_that_is_no_id_of_a_gpu_is_refused(value):
    with pytest.raises(TraitError, match="is not the id of a GPU; use ids such as"):
        LocalBackend(mps_devices=value)


@pytest.mark.parametrize(
    ("command", "said"),
    [([], "names no program"), ([""], "names no program"), (["python", "a\0"], "has a NUL character")],
)
def test_a_command_that_can_run_nothing_is_refused(command, said):
    with pytest.raises(TraitError, match=f"{said}; write a program and its arguments"):
        LocalBackend(command=command)


def test_only_present_devices_are_shared_by_mps(tmp_path, caplog):
    probe = FakeDriver(devices=2)
    backend = LocalBackend(mps_devices=["GPU-1", "GPU-7", "GPU-1"], mps_dir="")
    mps = build(backend, tmp_path, probe).mps
    assert (mps.daemon.devices, mps.daemon.folder) == (("GPU-1",), tmp_path / "mps")
    assert "names GPU-7, which this machine does not have" in caplog.text
    assert build(LocalBackend(mps_devices=["GPU-7"]), tmp_path, probe).mps is None


def test_enforcers_are_off_unless_they_are_switched_on(tmp_path):
    assert build(LocalBackend(), tmp_path, FakeDriver()) == Enforcers()


def build(backend, folder, probe):
    return backend.enforcers(state_dir=folder, probe=probe, awake=lambda: 0.0, on_change=lambda: None)


class _NoDevices:
    def devices(self):
        return ()
