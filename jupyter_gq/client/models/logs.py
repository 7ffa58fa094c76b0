"""The log of a job's last run: how much of it is kept, and the lines with a text that was looked for."""

from pydantic import BaseModel, Field

from jupyter_gq.client.bounds import Count

#: Most lines in one answer, and most characters of a line that is shown.
MOST_LINES, LONGEST_LINE = 200, 1000
#: Most characters of a text that is looked for.
LONGEST_TEXT = 200


class TaskLog(BaseModel):
    """The bytes of one task's log that are kept."""

    task: Count
    start: int = Field(ge=0, description="Number of the first byte that is kept; the bytes before are dropped.")
    end: int = Field(ge=0, description="Number of bytes that were written so far.")


class JobLog(BaseModel):
    """The log of a job's last run: what is kept of it, and what is not."""

    run: Count = Field(description="Number of the run; 0 = the job has not run.")
    tasks: list[TaskLog] = Field(description="The tasks that have a log, in order.")
    complete: bool = Field(description="All that was written so far is kept.")
    note: str = Field(description='What is not kept, and why, as a sentence; "" if the log is complete.')


class LogLine(BaseModel):
    """A line of a log."""

    line: int = Field(ge=1, description="Number of the line, from 1; lines that are dropped do not count.")
    text: str = Field(description="The line, or up to 1000 bytes around the text that was looked for.")


class LogLines(BaseModel):
    """The lines of a part of one task's log that have the text in them."""

    task: Count
    lines: list[LogLine] = Field(max_length=MOST_LINES)
    next: int | None = Field(description="The `start` of the next part; None if this is the end of the log.")
    next_line: int = Field(ge=1, description="The `line` of the next part.")
