"""`python keep_running.py ARGUMENTS`: keep `python ARGUMENTS` running for as long as the parent process runs.

The Hub ends its services if it stops in order, and checks every half a minute whether they still run. That leaves two
gaps, which this process closes:

- A killed Hub leaves its services behind, and the next Hub starts new ones: two schedulers would then decide on one
  state. Here the Hub, this process and the command end one after the other, whichever is killed (`PR_SET_PDEATHSIG`,
  Linux).
- A command that is killed by a signal is started again within a second. A command that ends by itself is not: it had a
  reason, and the Hub decides.

This module uses the standard library only, because its process lives as long as the Hub and should be small.
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
#: Seconds before the command is started again.
_PAUSE = 0.5

_LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    """Run `python` with this process's arguments, again whenever a signal kills it; return its exit code.

    Ends when the command ends by itself, or when this process gets SIGTERM or SIGINT, which stops the command too.
    """
    _end_with_parent(os.getppid())
    child: subprocess.Popen[bytes] | None = None
    is_stopping = False

    def forward_stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_stopping
        is_stopping = True
        if child is not None and child.poll() is None:
            child.terminate()

    signal.signal(signal.SIGTERM, forward_stop)
    signal.signal(signal.SIGINT, forward_stop)
    end_with_this_process = partial(_end_with_parent, os.getpid())
    while not is_stopping:
        child = subprocess.Popen([sys.executable, *sys.argv[1:]], preexec_fn=end_with_this_process)  # noqa: S603 - no shell
        if is_stopping:  # the signal came while the command was being started
            child.terminate()
        code = child.wait()
        if code >= 0 or is_stopping:
            return max(code, 0)
        time.sleep(_PAUSE)
    return 0


def _end_with_parent(parent: int) -> None:
    """Let the kernel send SIGTERM to this process when its parent, the process `parent`, ends.

    If the parent has ended already, exit at once. Raises `OSError` if the kernel refuses.
    """
    if _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # the parent ended before the call took effect
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
