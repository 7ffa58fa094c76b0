"""What the kernel shows of a process's signals."""

import signal
from pathlib import Path


def blocked_signals(pid: int) -> set[int]:
    """Return the numbers of the signals that the main thread of a process blocks, without those that it waits for."""
    return _read_mask(pid, "SigBlk")


def handled_signals(pid: int) -> set[int]:
    """Return the numbers of the signals for which a process has a handler."""
    return _read_mask(pid, "SigCgt")


def _read_mask(pid: int, field: str) -> set[int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = int(next(line for line in lines if line.startswith(field)).split()[1], 16)
    return {number for number in signal.valid_signals() if mask >> number - 1 & 1}
