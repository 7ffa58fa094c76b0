"""How a runner says that it could not write the files of its run, or that their content is lost."""

#: The status that sysexits.h names EX_CANTCREAT. The last line of the run's log is then the sentence for the owner.
RESULT_NOT_WRITTEN = 73
#: The status that sysexits.h names EX_TEMPFAIL: the disk had no room for the run, and another run may find some.
DISK_FULL = 75
#: The sentence for a run whose runner ended with `DISK_FULL`.
NO_ROOM = "The disk of the job's folder had no room for this run."
#: The beginning of the sentence of a run that was told to stop, ended with its folder, and was not rid of its outputs.
OUTPUTS_LOST = "The last outputs are lost, because the scheduler service did not take them before the end of the job"


def explain_unwritten_result(log: bytes) -> str:
    """Return the sentence for a run whose runner ended with `RESULT_NOT_WRITTEN`; `log` is the end of its log."""
    lines = log.decode("utf-8", "replace").strip().splitlines()
    return f"The result of this run could not be written. {lines[-1] if lines else ''}".strip()
