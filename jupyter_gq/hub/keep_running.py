"""`python keep_running.py ARGUMENTS`: keep `python ARGUMENTS` running for as long as the parent process runs.

The Hub ends its services if it stops in order, and checks every half a minute whether they still run. That leaves two
gaps, which this process closes:

- A killed Hub leaves its services behind, and the next Hub starts new ones: two schedulers would then decide on one
  state. Here the kernel sends SIGTERM to this process once the Hub ends, and to the command once this process ends
  (`PR_SET_PDEATHSIG`, Linux).
- A command that is killed by a signal is started again within a second. A command that ends by itself is not: it had a
  reason, and the Hub decides.

A command that was killed can say nothing itself. So this process says what ended it, once for each signal in a row.

This module uses the standard library only, because its process lives as long as the Hub and should be small.
"""

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial

_PR_SET_PDEATHSIG = 1
#: Seconds before the command is started again.
_PAUSE = 0.5
#: The signals that stop the command and this process.
_STOPS = {signal.SIGTERM, signal.SIGINT}
_AWAITED = _STOPS | {signal.SIGCHLD}

_KILLED = (
    "The scheduler service was ended by {signal}, and is started again. If that repeats and nobody sends this signal, "
    "the settings file ends the process that executes it, or the machine had no memory left: see its kernel log "
    "(dmesg), and undo the last change of the file.\n"
)
_ENDED = (
    "The scheduler service has ended with exit code {code}. If no line above says why, its settings file has ended the "
    "process: undo the last change of the file.\n"
)

_LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    """Run `python` with this process's arguments, again whenever a signal kills it; return its exit code.

    Ends when the command ends by itself. SIGTERM and SIGINT are passed on as SIGTERM; then the command's end is waited
    for without a time limit, and 0 is returned if a signal has ended it.
    """
    _end_with_parent(os.getppid())
    # The signals stay blocked and are waited for. A handler would run too late for one that comes right before a wait.
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    for number in _AWAITED:  # what was ignored before would be ignored by the command too, and tell of no end
        signal.signal(number, signal.SIG_DFL)
    prepare = partial(_prepare_command, os.getpid())
    told = 0
    while True:
        child = subprocess.Popen([sys.executable, *sys.argv[1:]], preexec_fn=prepare)  # noqa: S603 - no shell
        is_stopping = False
        while child.poll() is None:
            if signal.sigwait(_AWAITED) in _STOPS:
                is_stopping = True
                child.terminate()
        if is_stopping:
            return max(child.returncode, 0)
        if child.returncode >= 0:
            _say(_ENDED.format(code=child.returncode))
            return child.returncode
        if told != child.returncode:
            told = child.returncode
            _say(_KILLED.format(signal=_name_signal(-told)))
        if signal.sigtimedwait(_STOPS, _PAUSE) is not None:
            return 0


def _say(sentence: str) -> None:
    """Write a sentence to the standard error output, unless nobody reads it."""
    with suppress(OSError, ValueError):
        sys.stderr.write(sentence)
        sys.stderr.flush()


def _name_signal(number: int) -> str:
    """Return the name of a signal, or its number if it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _prepare_command(parent: int) -> None:
    """Let the process of the command end with the process `parent`, and get the signals that its parent waits for."""
    _end_with_parent(parent)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)


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
