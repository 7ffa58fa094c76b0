"""The sentences for owners whose work gives way agree in number with each amount."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.scheduling.evict import notices
from tests.builders import NOW, a_job, a_notebook, running


@pytest.mark.parametrize(("gpus", "were"), [("0.5", "0.5 GPU was"), ("1", "1 GPU was"), ("2", "2 GPUs were")])
def test_the_share_of_a_suspended_server(gpus, were):
    notebook = running(a_notebook("ann", gpus), *(["n-0"] if float(gpus) <= 1 else ["n-0", "n-1"]))
    assert notices.describe_suspension(notebook, None, 24).startswith(f"Suspended: your {were} idle for 24 s. ")


@pytest.mark.parametrize(("gpus", "needs"), [("0.5", "a GPU"), (1, "a GPU"), (2, "GPUs")])
def test_what_others_wait_for(gpus, needs):
    told = reveal(notices.describe_suspension(running(a_notebook("ann"), "n-0"), a_job("j", "q", gpus), 24))
    assert f" waited for {needs}. " in told


@pytest.mark.parametrize(
    ("left", "which"),
    [(2, "only 2 of its 4 tasks have"), (1, "only 1 of its 4 tasks has"), (0, "none of its tasks has")],
)
def test_the_tasks_that_are_left(left, which):
    devices = [f"box-{i}" for i in range(left)]
    gang = running(a_job("g", "q", tasks=4, min_members=3, stale_since=Instant(NOW - 90)), *devices)
    gang = replace(gang, placement=gang.placement[:left])
    assert notices.describe_stale_gang(gang, NOW).startswith(f"Paused: {which} been left for 90 s, and it needs at ")
