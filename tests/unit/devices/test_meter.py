"""The use of a share is the sum of its memory and the highest utilisation, or unknown."""

from jupyter_gq.devices.meter import UNKNOWN, ProbeMeter, ReportedMeter, Share, ShareUse
from jupyter_gq.devices.probe import Usage
from tests.fakes import FakeProbe

HERE = Share(devices=("GPU-0",), pids=(1, 2))


class TwoDevices(FakeProbe):
    """A probe of two devices with the given use of each, which records the calls."""

    def __init__(self, **used):
        super().__init__()
        self.on = {name.replace("_", "-"): usages for name, usages in used.items()}
        self.asked = []

    def usage(self, device, pids):
        self.asked.append((device, sorted(pids)))
        if device not in self.on:
            return None
        return tuple(
            Usage(pid=pid, memory=memory, utilisation=utilisation)
            for pid, (memory, utilisation) in self.on[device].items()
            if pid in pids
        )


def measured(probe, share=HERE):
    return ProbeMeter(probe).measure({"a": share})["a"]


def test_memory_is_the_sum_and_utilisation_the_highest_of_processes_and_devices():
    probe = TwoDevices(GPU_0={1: (100, 30), 2: (50, 40)}, GPU_1={1: (7, 90)})
    assert measured(probe) == ShareUse(memory=150, utilisation=40)
    assert measured(probe, Share(devices=("GPU-0", "GPU-1"), pids=(1, 2))) == ShareUse(memory=157, utilisation=90)


def test_figure_that_the_driver_does_not_tell_is_unknown_and_not_0():
    assert measured(TwoDevices(GPU_0={1: (None, 30), 2: (50, 40)})) == ShareUse(memory=None, utilisation=40)
    assert measured(TwoDevices(GPU_0={1: (100, None), 2: (50, 40)})) == ShareUse(memory=150, utilisation=None)


def test_device_that_cannot_be_sampled_makes_the_share_unknown():
    assert measured(TwoDevices(GPU_0={1: (100, 30)}), Share(devices=("GPU-0", "GPU-1"), pids=(1,))) == UNKNOWN


def test_process_that_the_driver_does_not_list_uses_nothing():
    assert measured(TwoDevices(GPU_0={})) == ShareUse(memory=0, utilisation=0)


def test_device_of_several_shares_is_sampled_once():
    probe = TwoDevices(GPU_0={1: (100, 10), 2: (50, 20)})
    shares = {"a": Share(devices=("GPU-0",), pids=(1,)), "b": Share(devices=("GPU-0",), pids=(2,))}
    assert ProbeMeter(probe).measure(shares) == {
        "a": ShareUse(memory=100, utilisation=10),
        "b": ShareUse(memory=50, utilisation=20),
    }
    assert probe.asked == [("GPU-0", [1, 2])]


def test_use_without_a_report_is_unknown():
    said = ShareUse(memory=5, utilisation=None)
    meter = ReportedMeter(lambda names: {"a": said} if set(names) == {"a", "b"} else {})
    assert meter.measure({"a": HERE, "b": HERE}) == {"a": said, "b": UNKNOWN}
