"""Pieces stay in the spool until nothing else is needed to show their outputs again."""

import asyncio
import socket
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from jupyter_gq.runner.delivery.shipper import ASK_TIMEOUT, OutputShipper
from jupyter_gq.runner.delivery.spool import LARGE_SPOOL
from jupyter_gq.runner.files.bundle import Bundle
from jupyter_gq.runner.files.folder import RunFolder
from jupyter_gq.runner.files.job import Job
from jupyter_gq.runner.output.executed_notebook import is_readable
from jupyter_gq.runner.stopping import StopRequest

BUNDLE = Bundle(notebook={"cells": []}, cells=(), cwd="/", kernel_name="k", language="", argv=("k",), env={})
WITH_THE_OUTPUTS = '{"metadata":{"jupyter_gq":{"seq":1,"ended":[]}},"cells":[]}'


def a_job(path: Path) -> Job:
    folder = RunFolder(job=path, run=1, task=0)
    folder.path.mkdir(parents=True)
    return Job(
        id="j",
        folder=folder,
        bundle=BUNDLE,
        url="http://127.0.0.1:9",
        token="t",
        stop=StopRequest(path / "stop"),
        kernel_env={},
    )


@pytest.mark.parametrize(
    ("stored", "saved", "notebook", "is_trimmed"),
    [
        (1, 1, WITH_THE_OUTPUTS, True),
        (0, 1, WITH_THE_OUTPUTS, False),
        (1, 0, WITH_THE_OUTPUTS, False),
        (1, 1, '{"cells":[1e999]}', False),
        (1, 1, None, False),
    ],
    ids=["trimmed", "not delivered", "not in the notebook", "notebook cannot be read", "no notebook"],
)
def test_a_large_spool_is_trimmed_only_if_service_and_notebook_have_its_pieces(
    tmp_path: Path, stored: int, saved: int, notebook: str | None, is_trimmed: bool
) -> None:
    async def trim() -> None:
        job = a_job(tmp_path)
        if notebook is not None:
            job.folder.notebook.write_text(notebook)
        shipper = OutputShipper(job, asyncio.get_running_loop().create_future())
        assert shipper.spool is not None
        assert shipper._uploader is not None
        shipper.spool.append([{"op": "append", "text": "x" * LARGE_SPOOL}], run=1, at=0)
        shipper._uploader.stored = stored
        await shipper.trim_spool(saved, partial(is_readable, job.folder.notebook))
        assert (job.folder.spool.stat().st_size < LARGE_SPOOL) is is_trimmed
        await shipper.close(0, refused=0)

    asyncio.run(trim())


def test_a_close_that_is_shortened_before_it_begins_is_short(tmp_path: Path) -> None:
    """A request to stop may come in the moment before the end. The service takes connections and never answers."""

    async def close() -> float:
        silent = socket.create_server(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        shipper = OutputShipper(replace(a_job(tmp_path), url=f"http://127.0.0.1:{port}"), asyncio.Future())
        shipper.emit([{"op": "run", "state": "start"}])
        shipper.shorten_close(0.0)
        began = time.monotonic()  # noqa: TID251 - the time that a caller waits
        await shipper.close(3600, refused=3600)
        silent.close()
        return time.monotonic() - began  # noqa: TID251

    assert asyncio.run(close()) < ASK_TIMEOUT
