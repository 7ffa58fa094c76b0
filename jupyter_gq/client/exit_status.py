"""The exit status by which a runner says that it could not write the result of its run."""

#: The status that sysexits.h names EX_CANTCREAT. The last line of the run's log is then the sentence for the owner.
RESULT_NOT_WRITTEN = 73


def explain_unwritten_result(log: bytes) -> str:
    """Return the sentence for a run whose runner ended with `RESULT_NOT_WRITTEN`; `log` is the end of its log."""
    lines = log.decode("utf-8", "replace").strip().splitlines()
    return f"The result of this run could not be written. {lines[-1] if lines else ''}".strip()
