"""Steps of Python code, which tests count where seconds would tell of the machine."""

import sys
from collections.abc import Callable


class TooManySteps(Exception):
    """Code that makes more calls than a test allows."""


def count_calls(run: Callable[[], object], *, most: int) -> int:
    """Return the number of calls of Python functions that `run` makes; raise `TooManySteps` at more than `most`.

    A generator counts each time that it goes on.
    """
    count = 0

    def note(_frame: object, event: str, _given: object) -> None:
        nonlocal count
        count += event == "call"
        if count > most:
            raise TooManySteps(count)

    former = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(former)
    return count
