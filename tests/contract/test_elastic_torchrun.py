"""A job of `torchrun` that the scheduler shrinks for another queue and lets grow again, with PyTorch itself on CPUs.

See docs/decisions/0365-test-pytorch-in-an-environment-of-its-own.md.
"""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from jupyter_gq.client.connection.http import ServiceClient

from .test_elastic_job import has, service, with_code
from .test_gang import NO_LONG_WAITS
from .test_killed_service import a_job, until

__all__ = ["service"]
pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed: make test-torch"),
]
#: Trains until the file `enough` is there. Each group writes its size and the step that it goes on from.
TRAINS = """
import pathlib, time
import torch, torch.distributed as group

group.init_process_group("gloo")
is_first, saved = group.get_rank() == 0, pathlib.Path("step")
step = int(saved.read_text()) if saved.exists() else 0
if is_first:
    with open("groups", "a") as file:
        file.write(f"{group.get_world_size()} from {step}\\n")
ends = torch.zeros(1)
while not ends.item():
    total = torch.ones(1)
    group.all_reduce(total)
    assert total.item() == group.get_world_size()
    step += 1
    if is_first:
        pathlib.Path("step.new").write_text(str(step))
        pathlib.Path("step.new").replace(saved)
        ends += pathlib.Path("enough").exists()
    group.broadcast(ends, 0)
    time.sleep(0.05)
group.destroy_process_group()
"""
TORCHRUN = Path(sys.executable).with_name("torchrun")
CELL = f"!PET_RDZV_CONF=$PET_RDZV_CONF{NO_LONG_WAITS} {TORCHRUN} train.py"
WAITS = "import pathlib, time\nwhile not pathlib.Path('ended').exists():\n    time.sleep(0.05)"


def read_groups(folder: Path) -> list[tuple[int, int]]:
    """Return the size of each group that has met, in order, and the step that it went on from."""
    lines = (folder / "groups").read_text() if has(folder, "groups") else ""
    return [(int(size), int(step)) for size, step in re.findall(r"^(\d+) from (\d+)$", lines, re.MULTILINE)]


async def test_torchrun_goes_on_with_fewer_tasks_when_another_queue_needs_its_quota_and_with_all_later(
    service, tmp_path
):
    client = ServiceClient(f"{service.url}/services/jupyter-gq/", "root")
    await until(client.health, "the service", service)
    (tmp_path / "train.py").write_text(TRAINS)
    job, _ = await client.submit(with_code(a_job(tmp_path), CELL, tasks=3, min_tasks=1), "key-1")

    async def trains_with(count: int, after: int = 0) -> bool:
        """Return whether the newest group has so many tasks, also in the record, and has saved a later step."""
        groups, step = read_groups(tmp_path), tmp_path / "step"
        is_further = step.exists() and int(step.read_text()) > max(after, groups[-1][1] if groups else 0)
        return is_further and groups[-1][0] == count == (await client.job(job.id)).tasks_now

    async def has_phase(name: str, phase: str) -> bool:
        return (await client.job(name)).phase == phase

    await until(lambda: trains_with(3), "a group of three", service)
    before = int((tmp_path / "step").read_text())
    other, _ = await client.submit(with_code(a_job(tmp_path), WAITS, queue="nlp"), "key-2")
    await until(lambda: has_phase(other.id, "running"), "the job of the other queue", service)
    await until(lambda: trains_with(2, before), "a group of two", service)
    assert "Runs on with 2 of its 3 tasks: nlp needed its 1 GPU back." in (await client.job(job.id)).sentence

    (tmp_path / "ended").touch()
    await until(lambda: trains_with(3, before), "a group of three again", service)
    (tmp_path / "enough").touch()
    await until(lambda: has_phase(job.id, "done"), "the end of the job", service)
    assert (await client.job(job.id)).run == 1, "no task began anew for the scheduler"
    groups = read_groups(tmp_path)
    assert groups[0] == (3, 0)
    assert sorted(groups, key=lambda group: group[1]) == groups, "each group goes on from the step that was saved"
    client.close()
