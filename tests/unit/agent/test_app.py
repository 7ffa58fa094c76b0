"""Devices are read often enough that the driver still has all samples of their use."""

from jupyter_gq.agent.agent import MAX_INTERVAL
from jupyter_gq.agent.app import NodeAgent
from jupyter_gq.controller.requests.activity import SAMPLE_EVERY


def test_devices_are_read_every_five_seconds_where_nothing_else_is_set():
    assert NodeAgent().report_every == 5 <= MAX_INTERVAL
    assert SAMPLE_EVERY == 5
