"""The probe of NVIDIA's driver names each way in which the driver can be missing, and never takes unknown for 0."""

from types import SimpleNamespace

import pynvml
import pytest

from jupyter_gq.devices.nvidia.nvml import NvmlProbe
from jupyter_gq.devices.probe import DeviceInfo, DeviceModes, ProbeState, Usage

GIB = 2**30


class FakeNvml:
    """A stand-in for the module pynvml with its real errors; each function named in `fails` raises that error."""

    NVMLError = pynvml.NVMLError

    def __init__(self, **fails):
        self.fails = {name: getattr(pynvml, f"NVML_ERROR_{error}") for name, error in fails.items()}
        self.running = []
        self.clients = []
        self.mig_mode = [0, 0]
        self.persistence = 1
        self.samples = []
        self.since = None

    def __getattr__(self, name):
        if name.startswith("NVML_"):
            return getattr(pynvml, name)

        def call(*arguments):
            if name in self.fails:
                raise pynvml.NVMLError(self.fails[name])
            return self.answer(name, *arguments)

        return call

    def answer(self, name, *arguments):
        answers = {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetHandleByUUID": self.handle_by_uuid,
            "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=40 * GIB - 1, free=30 * GIB - 1),
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
            "nvmlDeviceGetMinorNumber": lambda handle: 1 - handle,
            "nvmlDeviceGetName": lambda _: "NVIDIA A100-SXM4-40GB",
            "nvmlDeviceGetComputeRunningProcesses": lambda _: self.running,
            "nvmlDeviceGetMPSComputeRunningProcesses": lambda _: self.clients,
            "nvmlDeviceGetMigMode": lambda _: self.mig_mode,
            "nvmlDeviceGetPersistenceMode": lambda _: self.persistence,
            "nvmlDeviceGetProcessUtilization": self.utilisation,
        }
        return answers[name](*arguments)

    def handle_by_uuid(self, uuid):
        if uuid not in {"GPU-0", "GPU-1"}:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return int(uuid[-1])

    def utilisation(self, _handle, since):
        self.since = since
        return self.samples


def probe_of(nvml):
    return NvmlProbe(now=lambda: 1000.0, load=lambda: nvml)


def test_devices_are_described():
    probe = probe_of(FakeNvml())
    assert probe.status().state is ProbeState.OK
    assert probe.status().detail == "2x A100-SXM4-40GB"
    assert probe.devices()[1] == DeviceInfo(uuid="GPU-1", index=1, model="A100-SXM4-40GB", memory=40959, minor=0)


def test_minor_number_that_the_driver_does_not_tell_is_unknown():
    assert [device.minor for device in probe_of(FakeNvml(nvmlDeviceGetMinorNumber="NOT_SUPPORTED")).devices()] == [
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("fails", "state"),
    [
        ({"nvmlInit": "LIBRARY_NOT_FOUND"}, ProbeState.NO_DRIVER),
        ({"nvmlInit": "DRIVER_NOT_LOADED"}, ProbeState.NO_DRIVER),
        ({"nvmlInit": "LIB_RM_VERSION_MISMATCH"}, ProbeState.DRIVER_MISMATCH),
        ({"nvmlInit": "NO_PERMISSION"}, ProbeState.NO_PERMISSION),
        ({"nvmlDeviceGetHandleByIndex": "GPU_IS_LOST"}, ProbeState.LOST),
        ({"nvmlDeviceGetCount": "UNKNOWN"}, ProbeState.BROKEN),
    ],
)
def test_each_failure_of_the_driver_is_a_state_with_a_sentence(fails, state):
    probe = probe_of(FakeNvml(**fails))
    status = probe.status()
    assert status.state is state
    assert status.detail.endswith(".")
    assert probe.devices() == ()


def test_missing_or_foreign_module_is_a_state():
    def load():
        raise ImportError("No module named 'pynvml'")

    assert NvmlProbe(now=lambda: 0.0, load=load).status().state is ProbeState.NOT_INSTALLED
    another = NvmlProbe(now=lambda: 0.0, load=SimpleNamespace).status()
    assert another.state is ProbeState.NOT_INSTALLED


def test_driver_without_devices_is_a_state():
    nvml = FakeNvml()
    nvml.answer = lambda name, *_: {"nvmlInit": None, "nvmlDeviceGetCount": 0}[name]
    assert probe_of(nvml).status().state is ProbeState.NO_DEVICES


def test_driver_that_is_loaded_later_is_found():
    nvml = FakeNvml(nvmlInit="DRIVER_NOT_LOADED")
    probe = probe_of(nvml)
    assert probe.devices() == ()
    nvml.fails.clear()
    assert len(probe.devices()) == 2


def test_driver_is_opened_once_however_often_it_is_asked():
    nvml = FakeNvml()
    opened, answer = [], nvml.answer
    nvml.answer = lambda name, *arguments: (
        opened.append(name) if name in ("nvmlInit", "nvmlShutdown") else answer(name, *arguments)
    )
    probe = probe_of(nvml)
    for _ in range(3):
        assert len(probe.devices()) == 2
        assert probe.usage("GPU-0", [1]) == ()
        assert probe.free_memory("GPU-0") is not None
    assert opened == ["nvmlInit"]


def test_driver_is_opened_anew_when_other_devices_fail_than_before_and_once_a_minute():
    """Each time that it is closed, other threads do not know the use of the devices that work."""
    nvml, failing, opened, at = FakeNvml(), set(), [], [1000.0]
    answer = nvml.answer

    def fail(name, *arguments):
        if name == "nvmlInit":
            opened.append(at[0])
        if name == "nvmlDeviceGetMemoryInfo" and arguments[0] in failing:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return answer(name, *arguments)

    def observe(*devices):
        for _ in range(5):
            assert probe.status().state is ProbeState.OK
            assert [device.uuid for device in probe.devices()] == list(devices)
        seen, opened[:] = list(opened), []
        return seen

    nvml.answer = fail
    probe = NvmlProbe(now=lambda: at[0], load=lambda: nvml)
    assert observe("GPU-0", "GPU-1") == [1000]
    failing.add(1)
    assert observe("GPU-0") == [1000]
    failing.symmetric_difference_update({0, 1})
    assert observe("GPU-1") == [1000]
    at[0] += 59
    assert observe("GPU-1") == []
    at[0] += 1
    assert observe("GPU-1") == [1060]
    at[0] -= 500  # the clock was set
    assert observe("GPU-1") == [560]
    failing.clear()
    at[0] += 100
    assert observe("GPU-0", "GPU-1") == []


def test_usage_rounds_memory_up_and_takes_the_highest_sample_of_the_window():
    nvml = FakeNvml()
    nvml.running = [
        SimpleNamespace(pid=1, usedGpuMemory=2**20 + 1),
        SimpleNamespace(pid=2, usedGpuMemory=None),
        SimpleNamespace(pid=3, usedGpuMemory=0),
        SimpleNamespace(pid=9, usedGpuMemory=1),
    ]
    nvml.samples = [
        SimpleNamespace(pid=1, smUtil=10, timeStamp=995_000_000),
        SimpleNamespace(pid=1, smUtil=70, timeStamp=996_000_000),
        SimpleNamespace(pid=1, smUtil=30, timeStamp=997_000_000),
        SimpleNamespace(pid=2, smUtil=99, timeStamp=900_000_000),
    ]
    assert probe_of(nvml).usage("GPU-0", [1, 2, 3, 4]) == (
        Usage(pid=1, memory=2, utilisation=70),
        Usage(pid=2, memory=None, utilisation=0),
        Usage(pid=3, memory=0, utilisation=0),
    )
    assert nvml.since == 990_000_000


def test_use_between_two_looks_is_seen_however_far_apart_they_are():
    """An agent may report every 25 s, and again at once. A look takes nothing from one that follows soon."""
    nvml, at = FakeNvml(), [1000.0]
    nvml.running = [SimpleNamespace(pid=pid, usedGpuMemory=0) for pid in (1, 2)]
    probe = NvmlProbe(now=lambda: at[0], load=lambda: nvml)

    def look(*pids):
        return [each.utilisation for each in probe.usage("GPU-0", pids)]

    assert look(1, 2) == [0, 0]
    nvml.samples = [SimpleNamespace(pid=pid, smUtil=80, timeStamp=1_003_000_000) for pid in (1, 2)]
    at[0] = 1020.0
    assert look(1) == [80]
    at[0] = 1025.0
    assert look(1, 2) == [80, 80]
    at[0] = 1031.0
    assert look(1, 2) == [0, 80]
    at[0] = 1036.0
    assert look(1, 2) == [0, 0]


@pytest.mark.parametrize("to", [500.0, 100_000.0])
def test_look_from_before_the_clock_was_set_counts_for_nothing(to):
    nvml, at = FakeNvml(), [1000.0]
    nvml.running = [SimpleNamespace(pid=1, usedGpuMemory=0)]
    probe = NvmlProbe(now=lambda: at[0], load=lambda: nvml)
    probe.usage("GPU-0", [1])
    at[0] = to
    probe.usage("GPU-0", [1])
    assert nvml.since == (to - 10) * 1_000_000


def test_look_at_which_the_driver_failed_is_none():
    nvml, at = FakeNvml(), [1000.0]
    nvml.running = [SimpleNamespace(pid=1, usedGpuMemory=0)]
    probe = NvmlProbe(now=lambda: at[0], load=lambda: nvml)
    probe.usage("GPU-0", [1])
    nvml.samples = [SimpleNamespace(pid=1, smUtil=80, timeStamp=1_003_000_000)]
    nvml.fails["nvmlDeviceGetProcessUtilization"] = pynvml.NVML_ERROR_UNKNOWN
    at[0] = 1020.0
    assert probe.usage("GPU-0", [1])[0].utilisation is None
    nvml.fails.clear()
    at[0] = 1040.0
    assert probe.usage("GPU-0", [1])[0].utilisation == 80


@pytest.mark.parametrize(("error", "utilisation"), [("NOT_FOUND", 0), ("NOT_SUPPORTED", None), ("NO_PERMISSION", None)])
def test_missing_samples_mean_no_use_and_other_errors_mean_unknown(error, utilisation):
    nvml = FakeNvml(nvmlDeviceGetProcessUtilization=error, nvmlDeviceGetMPSComputeRunningProcesses="NOT_SUPPORTED")
    nvml.running = [SimpleNamespace(pid=1, usedGpuMemory=0)]
    assert probe_of(nvml).usage("GPU-0", [1]) == (Usage(pid=1, memory=0, utilisation=utilisation),)


def test_success_without_samples_means_no_use():
    """The driver raises an error whose value says "success"."""
    nvml = FakeNvml()
    nvml.fails["nvmlDeviceGetProcessUtilization"] = pynvml.NVML_SUCCESS
    nvml.running = [SimpleNamespace(pid=1, usedGpuMemory=0)]
    assert probe_of(nvml).usage("GPU-0", [1])[0].utilisation == 0


@pytest.mark.parametrize("where", ["nvmlInit", "nvmlDeviceGetComputeRunningProcesses"])
def test_use_is_unknown_if_the_driver_fails(where):
    assert probe_of(FakeNvml(**{where: "UNKNOWN"})).usage("GPU-0", [1]) is None


def test_probe_of_this_machine_raises_nothing():
    probe = NvmlProbe(now=lambda: 0.0)
    assert isinstance(probe.status().state, ProbeState)
    assert (probe.devices() == ()) == (probe.status().state is not ProbeState.OK)


def test_free_memory_is_rounded_down():
    assert probe_of(FakeNvml()).free_memory("GPU-0") == 30 * 1024 - 1


@pytest.mark.parametrize(
    ("fails", "error"),
    [
        ("nvmlInit", "GPU_IS_LOST"),
        ("nvmlDeviceGetHandleByUUID", "NOT_FOUND"),
        ("nvmlDeviceGetMemoryInfo", "GPU_IS_LOST"),
    ],
)
def test_free_memory_is_unknown_if_the_driver_fails(fails, error):
    assert probe_of(FakeNvml(**{fails: error})).free_memory("GPU-0") is None


@pytest.mark.parametrize("error", ["GPU_IS_LOST", "IRQ_ISSUE", "INSUFFICIENT_POWER", "UNKNOWN"])
def test_device_is_found_while_the_driver_s_search_fails_because_of_another_one(error):
    nvml = FakeNvml(nvmlDeviceGetHandleByUUID=error)
    nvml.running = [SimpleNamespace(pid=1, usedGpuMemory=0)]
    probe = probe_of(nvml)
    assert probe.usage("GPU-1", [1]) == (Usage(pid=1, memory=0, utilisation=0),)
    assert probe.free_memory("GPU-1") == 30 * 1024 - 1
    assert probe.free_memory("GPU-2") is None


@pytest.mark.parametrize("error", ["NOT_FOUND", "UNINITIALIZED", "INVALID_ARGUMENT"])
def test_device_is_not_looked_for_elsewhere_if_the_driver_knows_that_there_is_none(error):
    assert probe_of(FakeNvml(nvmlDeviceGetHandleByUUID=error)).free_memory("GPU-1") is None


def test_partitioned_device_is_an_obstacle_to_a_suspension():
    nvml = FakeNvml()
    assert probe_of(nvml).suspension_obstacle("GPU-0", [7]) is None
    nvml.mig_mode = [1, 0]
    assert "(MIG)" in probe_of(nvml).suspension_obstacle("GPU-0", [7])


def test_use_through_mps_is_an_obstacle_to_a_suspension():
    nvml = FakeNvml(nvmlDeviceGetMigMode="NOT_SUPPORTED")
    nvml.clients = [SimpleNamespace(pid=7, usedGpuMemory=GIB)]
    assert probe_of(nvml).suspension_obstacle("GPU-0", [8]) is None
    assert "MPS" in probe_of(nvml).suspension_obstacle("GPU-0", [7, 8])


def test_modes_are_those_that_the_driver_tells():
    nvml = FakeNvml()
    assert probe_of(nvml).modes("GPU-0") == DeviceModes(partitioned=False, persistent=True)
    nvml.mig_mode, nvml.persistence = [1, 1], 0
    assert probe_of(nvml).modes("GPU-0") == DeviceModes(partitioned=True, persistent=False)
    nvml = FakeNvml(nvmlDeviceGetMigMode="NOT_SUPPORTED", nvmlDeviceGetPersistenceMode="NOT_SUPPORTED")
    unknown = DeviceModes(partitioned=None, persistent=None)
    assert probe_of(nvml).modes("GPU-0") == unknown
    assert probe_of(FakeNvml(nvmlInit="LIBRARY_NOT_FOUND")).modes("GPU-0") == unknown
