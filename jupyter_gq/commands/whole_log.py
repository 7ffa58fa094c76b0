"""The whole log of a job on standard output, and the lines of it that have a text in them."""

import codecs
import sys
from collections.abc import AsyncIterator

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.connection.log_reading import choose_logs, read_logs
from jupyter_gq.client.models import LogLine
from jupyter_gq.client.plain_output import print_plain
from jupyter_gq.domain.plain_text import quoted, strip_controls

from .refusal import ExitCode


async def print_whole_log(client: ServiceClient, job: str, task: int | None) -> int:
    """Print the log of a job's last run, of all tasks or of one, part by part; return 0.

    A terminal gets text without control characters, and a file or pipe gets the bytes as they were printed. What is not
    kept is told on standard error.
    """
    kept = await client.log_size(job)
    decoder = codecs.getincrementaldecoder("utf-8")("replace") if sys.stdout.isatty() else None
    async for part in read_logs(client, job, choose_logs(kept, task)):
        _write(part, decoder)
    sys.stdout.flush()
    _tell(kept.note)
    return ExitCode.OK


async def print_lines(client: ServiceClient, job: str, task: int | None, text: str) -> int:
    """Print the lines of the log of a job's last run that have this text in them, with their numbers.

    Returns 0 if there is one, and 1 if not. Lines of several tasks begin with the number of the task.
    """
    kept = await client.log_size(job)
    chosen = choose_logs(kept, task)
    found = False
    for each in chosen:
        async for line in _find_lines(client, job, each.task, text):
            where = f"{each.task}:{line.line}" if len(chosen) > 1 else str(line.line)
            print_plain(f"{where}: {line.text}")
            found = True
    _tell(kept.note if found else f"No line of the log has {quoted(text)} in it. {kept.note}".rstrip())
    return ExitCode.OK if found else ExitCode.FAILED


async def _find_lines(client: ServiceClient, job: str, task: int, text: str) -> AsyncIterator[LogLine]:
    """Yield the lines of a task's log with this text, in order."""
    start, line = 0, 1
    while True:
        answer = await client.log_lines(job, text, task=task, start=start, line=line)
        for each in answer.lines:
            yield each
        if answer.next is None:
            return
        start, line = answer.next, answer.next_line


def _write(content: bytes, decoder: codecs.IncrementalDecoder | None) -> None:
    """Write bytes to standard output; with a decoder, as text without control characters."""
    if decoder is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(strip_controls(decoder.decode(content), lines=True))


def _tell(sentence: str) -> None:
    """Print a sentence on standard error, if there is one."""
    if sentence:
        sys.stdout.flush()
        print_plain(sentence, sys.stderr)
