"""Limits of the driver: an old pynvml and an old driver are told in words, and only a limit that is shown counts."""

from types import SimpleNamespace

import pynvml
import pytest

from jupyter_gq.devices.choose import choose_limiter
from jupyter_gq.devices.nvidia.driver_limits import LimitError, NeverLimitedError, NvmlLimiter, is_kept
from jupyter_gq.devices.nvidia.nvml import NvmlProbe
from jupyter_gq.devices.simulated.devices import SimulatedDevices

from .test_nvml import FakeNvml


class OldPynvml:
    """A pynvml without the functions for limits."""


class LimitingNvml(FakeNvml):
    """A stand-in for a pynvml that knows limits, also where the installed one does not."""

    c_nvmlGetMemoryLimits_v1_t = SimpleNamespace


def refuse_import():
    raise ImportError("pynvml")


def no_time():
    return 0.0


@pytest.mark.parametrize(
    ("load", "sentence"),
    [
        (refuse_import, "install version 13.615 or newer"),
        (OldPynvml, "install version 13.615 or newer"),
        (lambda: LimitingNvml(nvmlDeviceGetMemoryLimits_v1="FUNCTION_NOT_FOUND"), "install version 615 or newer"),
        (lambda: LimitingNvml(nvmlDeviceGetMemoryLimits_v1="NOT_SUPPORTED"), "does not limit the memory of this GPU"),
        (lambda: LimitingNvml(nvmlDeviceGetMemoryLimits_v1="UNKNOWN"), "NVIDIA's driver says: Unknown Error"),
        (lambda: FakeNvml(nvmlInit="LIBRARY_NOT_FOUND"), "NVIDIA's driver says: NVML Shared Library Not Found"),
    ],
)
def test_what_is_missing_is_told_in_words(load, sentence):
    with pytest.raises(LimitError, match=sentence):
        NvmlLimiter(load).read_limit("GPU-0", "/sys/fs/cgroup/x")


@pytest.mark.parametrize(
    ("error", "never"), [("NOT_SUPPORTED", True), ("FUNCTION_NOT_FOUND", True), ("UNKNOWN", False)]
)
def test_device_on_which_nothing_is_limited_is_told_from_one_that_fails(error, never):
    with pytest.raises(LimitError) as caught:
        NvmlLimiter(lambda: LimitingNvml(nvmlDeviceGetMemoryLimits_v1=error)).read_limit("GPU-0", "/sys/fs/cgroup/x")
    assert isinstance(caught.value, NeverLimitedError) is never


def test_installed_pynvml_may_know_limits():
    """Where it does, the fields have these names."""
    if hasattr(pynvml, "c_nvmlSetMemoryLimits_v1_t"):
        names = [name for name, _ in pynvml.c_nvmlSetMemoryLimits_v1_t._fields_]
        assert names == ["nameSpace", "softLimit", "hardLimit"]


@pytest.mark.parametrize(
    ("found", "kept"), [(10_240, True), (9_728, True), (10_400, True), (10_600, False), (81_920, False), (None, False)]
)
def test_limit_counts_if_the_driver_shows_it_or_less(found, kept):
    assert is_kept(10_240, found) is kept


def test_simulated_devices_have_no_limits():
    probe = SimulatedDevices(mode="always").probe(why="test.", now=no_time)
    with pytest.raises(LimitError, match="Simulated GPUs"):
        choose_limiter(probe).set_limit("GPU-sim-0", "/sys/fs/cgroup/x", 1)
    assert isinstance(choose_limiter(NvmlProbe(now=no_time)), NvmlLimiter)
