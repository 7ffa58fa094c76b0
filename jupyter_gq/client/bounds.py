"""The bounds of texts, lists and numbers in requests: each is far above honest use, and small enough to be kept.

A text without control characters may be stored in any database, and shown and logged on one line.
"""

from typing import Annotated

from pydantic import Field

_CONTROLS = r"\x00-\x1f\x7f-\x9f"
#: A character of a name, for regular expressions: no control, no bidirectional control (see `domain.plain_text`), and
#: none of the noncharacters that mark names in sentences.
NAME_CHARACTER = rf"[^{_CONTROLS}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufdd0-\ufdef]"
_ONE_LINE = rf"^[^{_CONTROLS}]*$"

#: The name of a user's object, a queue, a server, a cell, a device.
Name = Annotated[str, Field(max_length=255, pattern=rf"^{NAME_CHARACTER}*$")]
#: The most characters of a short name.
MAX_NAME = 100
#: A name that is shown in lists: of a group, a number, a GPU model.
ShortName = Annotated[str, Field(max_length=MAX_NAME, pattern=rf"^{NAME_CHARACTER}*$")]
#: A path, an argument of a command, a sentence.
Line = Annotated[str, Field(max_length=4096, pattern=_ONE_LINE)]
#: A sentence of a program on one line.
Sentence = Annotated[str, Field(max_length=1000, pattern=_ONE_LINE)]
#: Text that a person or a program wrote, of one line or several.
Text = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")]
#: The value of an environment variable, which may have several lines.
Value = Annotated[str, Field(max_length=32_768, pattern=r"^[^\x00]*$")]
#: Text or a number: GPUs, CPU cores, memory.
Amount = Annotated[str, Field(max_length=40, pattern=_ONE_LINE)] | int | float
#: An instant in seconds since the epoch.
Time = Annotated[float, Field(ge=0, le=100_000_000_000)]
#: A length of time in seconds, at most some three thousand years.
Duration = Annotated[float, Field(ge=0, le=100_000_000_000)]
#: The largest number of a run, or of a piece of output: databases keep 31 bits.
MAX_COUNT = 2**31 - 1
#: The number of a run, or of a piece of output.
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
#: The most entries of an environment.
MOST_VARIABLES = 1000
#: The most cells of a job, and the most kernels, devices or pods in one report.
MOST_ENTRIES = 10_000
#: The most abilities of a node.
MOST_ABILITIES = 50
#: The most variables that a job returns.
MOST_RETURNS = 100
#: The most variables that a job takes along.
MOST_CARRIED = 1000
#: The most secrets of a job.
MOST_SECRETS = 50
#: The most arguments of a command.
MOST_ARGUMENTS = 200
