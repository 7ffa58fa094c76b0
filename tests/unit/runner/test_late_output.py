"""Outputs that a kernel sent before its reply, and that the runner reads long after it."""

import asyncio
from queue import Empty

from jupyter_gq.runner.cells.cells import LATE_OUTPUT_LOST, CellClient
from jupyter_gq.runner.output.recorder import Recorder


class EndedKernel:
    """The process of a kernel that has ended."""

    exit_code = 0


class LateClient:
    """A connection whose messages are read after the reply; then nothing comes any more."""

    def __init__(self, *messages: tuple[str, dict]) -> None:
        self.messages = [
            {"msg_type": kind, "parent_header": {"msg_id": "request"}, "content": content} for kind, content in messages
        ]

    async def get_iopub_msg(self, **_: float) -> dict:
        if not self.messages:
            raise Empty
        return self.messages.pop(0)


def outputs_after_the_reply(*messages: tuple[str, dict]) -> list[dict]:
    recorder = Recorder(lambda pieces: None, now=0.0)
    node = {"cell_type": "code", "id": "c", "source": "1", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [node]}
    client = CellClient(notebook, EndedKernel(), recorder, lambda: None)
    client.clear_before_next_output = False
    client.kc = LateClient(*messages)
    client._showing = recorder.cell_output("c", "target")
    reply = {"parent_header": {"msg_id": "request"}, "content": {"status": "ok"}}
    asyncio.run(client._check_raise_for_error(client.nb.cells[0], 0, reply))
    return recorder.outputs("c")


END = ("stream", {"name": "stdout", "text": "end\n"})
IDLE = ("status", {"execution_state": "idle"})


def test_late_outputs_are_taken_until_the_kernel_is_idle() -> None:
    (output,) = outputs_after_the_reply(END, ("stream", {}), END, IDLE, END)
    assert output["text"] == "end\nend\n"


def test_a_notice_says_that_late_outputs_were_lost() -> None:
    output, notice = outputs_after_the_reply(END)
    assert output["text"] == "end\n"
    assert notice["data"]["text/plain"] == LATE_OUTPUT_LOST
