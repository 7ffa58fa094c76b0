"""Outputs that a kernel sent before its reply, and that the runner reads long after it."""

import asyncio
import mmap
from queue import Empty

from jupyter_gq.domain.last_words import SIZE, PrintedText
from jupyter_gq.runner.cells.cells import LATE_OUTPUT_LOST, CellClient
from jupyter_gq.runner.cells.last_words import LastWords
from jupyter_gq.runner.output.recorder import Recorder


class EndedKernel:
    """The process of a kernel that has ended."""

    exit_code = 0

    def __init__(self) -> None:
        self.last_words = LastWords()


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


def outputs_after_the_reply(*messages: tuple[str, dict], last_words: bytes = b"") -> list[dict]:
    recorder = Recorder(lambda pieces: None, now=0.0)
    node = {"cell_type": "code", "id": "c", "source": "1", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [node]}
    kernel = EndedKernel()
    if last_words:
        with mmap.mmap(kernel.last_words.file, SIZE) as memory:
            PrintedText(memory, "stdout").append(last_words)
    client = CellClient(notebook, kernel, recorder, lambda: None)
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


def test_the_last_words_of_a_kernel_that_dies_after_its_reply_are_shown() -> None:
    (output,) = outputs_after_the_reply(END, last_words=b"Aborted.\n")
    assert output["text"] == "end\nAborted.\n"
