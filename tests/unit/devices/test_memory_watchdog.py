"""The watchdog warns, interrupts and ends, one step at a time, and only the largest program of a share."""

from dataclasses import replace

import pytest

from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.memory_watchdog import Act, LimitedUse, Watched, WatchRule, judge
from jupyter_gq.devices.meter import DeviceUse, ProcessUse
from jupyter_gq.domain.amount import MiB, Seconds

LIMIT = MiB(10_000)
RULE = WatchRule(
    tolerance=MiB(100),
    reserve=MiB(500),
    after={Act.WARN: Seconds(0), Act.INTERRUPT: Seconds(20), Act.TERMINATE: Seconds(20), Act.KILL: Seconds(10)},
)
#: Seconds between two samples.
EVERY = 5.0


def a_sample(*held, free=8000, device="GPU-0"):
    """The memory of processes 1, 2, 3 ... of the share; None = the driver does not tell."""
    processes = tuple(ProcessUse(process=ProcessId(pid, 7), memory=memory) for pid, memory in enumerate(held, 1))
    return LimitedUse(limit=LIMIT, use=DeviceUse(device=device, processes=processes, free=free))


LOST = LimitedUse(limit=LIMIT, use=DeviceUse(device="GPU-0", processes=None, free=None))


class Watch:
    """A watchdog at work on one share."""

    def __init__(self, rule=RULE):
        self.rule, self.state, self.now = rule, Watched(), 1000.0

    def see(self, *samples, after=EVERY):
        """What is done after this sample."""
        self.now += after
        self.state, act = judge(self.state, samples, self.now, self.rule)
        return act

    def acts(self, *samples, times=12):
        """Each act with the seconds until it, while the share stays as it is."""
        began = self.now + EVERY
        found = [(self.see(*samples), self.now - began) for _ in range(times)]
        return [(act, at) for act, at in found if act is not None]


def test_memory_of_all_processes_counts_together():
    watch = Watch()
    assert watch.see(a_sample(5000, 5101)) is Act.WARN
    assert (watch.state.excess.used, watch.state.excess.over) == (10_101, 101)


def test_each_step_follows_the_step_before_after_its_own_time():
    assert Watch().acts(a_sample(12_000)) == [(Act.WARN, 0), (Act.INTERRUPT, 20), (Act.TERMINATE, 40), (Act.KILL, 50)]


def test_only_the_largest_process_is_acted_on():
    watch = Watch()
    watch.acts(a_sample(4000, 6000, 2000))
    assert watch.state.target == ProcessId(2, 7)


def test_process_that_becomes_the_largest_is_interrupted_first():
    """The end of one program is no reason to end the next one without a word."""
    watch = Watch()
    assert [act for act, _ in watch.acts(a_sample(12_000, 11_000))][-1] is Act.KILL
    assert watch.acts(a_sample(0, 11_000)) == [(Act.INTERRUPT, 20), (Act.TERMINATE, 40), (Act.KILL, 50)]


def test_recycled_id_is_another_process():
    watch = Watch()
    watch.acts(a_sample(12_000), times=5)
    assert watch.state.done is Act.INTERRUPT
    recycled = ProcessUse(process=ProcessId(1, 99), memory=MiB(12_000))
    sample = replace(a_sample(), use=DeviceUse(device="GPU-0", processes=(recycled,), free=MiB(8000)))
    watch.acts(sample, times=5)
    assert (watch.state.done, watch.state.target) == (Act.INTERRUPT, ProcessId(1, 99))


def test_share_that_is_back_within_its_limit_begins_anew():
    watch = Watch()
    watch.acts(a_sample(12_000), times=5)
    assert watch.see(a_sample(9000)) is None
    assert watch.state == Watched(known=True)
    assert watch.see(a_sample(12_000)) is Act.WARN


@pytest.mark.parametrize("missing", [(LOST,), (a_sample(12_000, None),), ()])
def test_missing_data_never_acts_and_its_time_does_not_count(missing):
    watch = Watch()
    assert watch.acts(*missing) == []
    assert not watch.state.known
    assert watch.see(a_sample(12_000)) is Act.WARN
    assert watch.acts(*missing) == []
    assert watch.acts(a_sample(12_000))[0] == (Act.INTERRUPT, 20)


def test_time_without_samples_does_not_count():
    watch = Watch()
    watch.see(a_sample(12_000))
    assert watch.see(a_sample(12_000), after=3600) is None


def test_clock_that_goes_back_does_not_hasten_an_act():
    watch = Watch()
    watch.see(a_sample(12_000))
    assert watch.see(a_sample(12_000), after=-3600) is None
    assert watch.state.over_for == 0


@pytest.mark.parametrize(
    ("used", "free", "act"), [(10_100, 500, None), (10_101, 500, Act.WARN), (10_001, 499, Act.WARN)]
)
def test_tolerance_holds_while_the_device_has_its_reserve(used, free, act):
    assert Watch().see(a_sample(used, free=free)) is act


def test_unknown_free_memory_takes_no_tolerance_away():
    assert Watch().see(a_sample(10_050, free=None)) is None


def test_device_with_the_largest_excess_decides():
    watch = Watch()
    watch.see(a_sample(10_500), a_sample(13_000, device="GPU-1"))
    assert watch.state.excess.device == "GPU-1"


def test_known_excess_counts_although_another_device_is_lost():
    watch = Watch()
    assert watch.see(a_sample(12_000), LOST) is Act.WARN
    assert not watch.state.known
