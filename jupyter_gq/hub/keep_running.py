"""`python keep_running.py ARGUMENTS`: keep `python ARGUMENTS` running, for as long as the parent process runs.

The Hub ends its services when it stops in order, and looks every half a minute whether they still run. That leaves two
gaps, which this process closes:

1. A Hub that is killed leaves its services behind, and the next Hub starts new ones: two schedulers would then decide
   on one state. Here parent, leash and command end one after the other, whoever is killed (`PR_SET_PDEATHSIG`, Linux).
2. A command that is killed by a signal is started again within a second. One that ends by itself is not: it had its
   reason, and the Hub decides.

Standard library only, because it is there for as long as the Hub.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from functools import partial
from types import FrameType

_PR_SET_PDEATHSIG = 1
#: Seconds before it is started again.
_PAUSE = 0.5

_LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    """Run the command until it ends by itself or we are told to end; return its exit code."""
    _end_with(os.getppid())
    child: subprocess.Popen[bytes] | None = None
    told = False

    def pass_on(_number: int, _frame: FrameType | None) -> None:
        nonlocal told
        told = True
        if child is not None and child.poll() is None:
            child.terminate()

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)
    on_our_leash = partial(_end_with, os.getpid())
    while not told:
        child = subprocess.Popen([sys.executable, *sys.argv[1:]], preexec_fn=on_our_leash)  # noqa: S603 - no shell
        if told:  # the signal came while it was being started
            child.terminate()
        code = child.wait()
        if code >= 0 or told:
            return max(code, 0)
        time.sleep(_PAUSE)
    return 0


def _end_with(parent: int) -> None:
    """From now on this process gets SIGTERM when that parent ends."""
    if _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # it ended before the leash was on
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
