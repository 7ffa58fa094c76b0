"""The service learns the activity of kernels, and the Hub learns only of real use of the server."""

import logging
from datetime import UTC, datetime

import pytest

from jupyter_gq.client.models import ServiceEvent
from jupyter_gq.lab.clock import JumpMeter, now
from jupyter_gq.lab.kernels.activity import LAST_ACTIVITY_SETTING
from jupyter_gq.lab.kernels.watch import KernelState
from tests.server.service import LacksTheScope
from tests.server.test_kernels import kernel, waits_for  # noqa: F401 - a fixture


@pytest.fixture
def reporter(jp_asyncio_loop, on_hub, extension):
    """Return the reporter, which reports only if the test calls it."""
    return jp_asyncio_loop.run_until_complete(extension.connect()).reporter


def a_kernel(busy, last_active=100.0):
    return KernelState(id="k", busy=busy, last_active=last_active)


def ticked(serverapp):
    moment = serverapp.web_app.settings.get(LAST_ACTIVITY_SETTING)
    return None if moment is None else moment.timestamp()


async def test_a_real_kernel_is_reported_busy_and_then_idle(kernel, service, reporter, until, tmp_path):  # noqa: F811
    kernel.client.execute(waits_for(tmp_path / "go-on"))
    await until(lambda: reporter._kernels.get_activity()[0].busy, "busy")
    await reporter.report()
    assert [(entry["id"], entry["busy"]) for entry in service.activity[-1]["kernels"]] == [(kernel.id, True)]
    (tmp_path / "go-on").touch()
    await until(lambda: reporter._kernels.get_activity()[0].busy is False, "idle")
    await reporter.report()
    last = service.activity[-1]
    assert last["kernels"][0]["busy"] is False
    assert last["at"] - 30 < last["kernels"][0]["last_active"] <= last["at"]


@pytest.mark.parametrize("jump", [86400.0, -86400.0])
async def test_the_last_use_of_a_kernel_moves_with_the_clock_of_the_server(kernel, service, reporter, jump):  # noqa: F811
    await reporter.report()
    before = service.activity[-1]["kernels"][0]["last_active"]
    set_by = 0.0
    reporter._kernels._jumps = JumpMeter(wall=lambda: now() + set_by)
    set_by = jump
    await reporter.report()
    # The clock of the reports stays as it was here, so that nothing moves forwards.
    last = service.activity[-1]
    assert last["kernels"][0]["last_active"] == pytest.approx(min(before + jump, last["at"]), abs=1)


async def test_reports_are_repeated(on_hub, service, extension, jp_serverapp, until):
    await extension._start_jupyter_server_extension(jp_serverapp)
    await until(lambda: len(service.activity) >= 2, "two reports")
    await extension.stop_extension()


async def test_busy_kernel_counts_as_activity_for_the_hub_until_the_limit(reporter, jp_serverapp):
    reporter.update_last_activity(1000.0, [a_kernel(True)])
    assert ticked(jp_serverapp) == 1000
    reporter.update_last_activity(1000.0 + reporter.busy_limit, [a_kernel(True)])
    assert ticked(jp_serverapp) == 1000 + reporter.busy_limit
    reporter.update_last_activity(1001.0 + reporter.busy_limit, [a_kernel(True)])
    assert ticked(jp_serverapp) == 1000 + reporter.busy_limit


async def test_idle_kernel_counts_from_its_last_use(reporter, jp_serverapp):
    reporter.update_last_activity(1000.0, [a_kernel(False, last_active=400.0)])
    reporter.update_last_activity(2000.0, [a_kernel(False, last_active=400.0), a_kernel(None, last_active=300.0)])
    assert ticked(jp_serverapp) == 400
    assert jp_serverapp.web_app.last_activity() >= datetime.fromtimestamp(400, UTC)


async def test_server_without_kernels_reports_no_activity(reporter, jp_serverapp):
    reporter.update_last_activity(1000.0, [])
    assert ticked(jp_serverapp) is None


@pytest.mark.parametrize(
    ("kind", "data", "counts"),
    [
        ("output", {"job": "job-1", "last_seq": 2}, True),
        ("notebook", {"server": "gpu", "utilisation": 40}, True),
        ("notebook", {"server": "gpu", "utilisation": 0}, False),
        ("notebook", {"server": "gpu", "utilisation": None}, False),
        ("notebook", {"server": "other", "utilisation": 40}, False),
        ("queues", {}, False),
    ],
)
async def test_used_share_and_arriving_output_count_as_activity(reporter, jp_serverapp, kind, data, counts):
    reporter.note_event(ServiceEvent(kind=kind, data=data))
    at = reporter._used_at or 1000.0
    reporter.update_last_activity(at + 59, [])
    assert (ticked(jp_serverapp) is not None) is counts
    jp_serverapp.web_app.settings.pop(LAST_ACTIVITY_SETTING, None)
    reporter.update_last_activity(at + 61, [])
    assert ticked(jp_serverapp) is None


@pytest.mark.parametrize("kind_of_service", [LacksTheScope])
async def test_a_refused_report_is_one_line_in_the_log(reporter, caplog):
    with caplog.at_level(logging.INFO):
        await reporter.report()
        await reporter.report()
    lines = [record for record in caplog.records if "the service refused the activity report" in record.getMessage()]
    assert len(lines) == 1
