"""Exit codes of the `jupyter-gq` command, and the errors that choose one."""

from enum import IntEnum

from jupyter_gq.domain.errors import AdminError


class ExitCode(IntEnum):
    """Exit codes; scripts depend on them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    UNREACHABLE = 4


#: The meaning of each exit code, for the reference.
EXIT_CODES = {
    ExitCode.OK: "the command did what it was asked",
    ExitCode.FAILED: "the job that was followed failed or was cancelled, a check or comparison found something, or the "
    "output could not be written",
    ExitCode.USAGE: "an argument, a file or the configuration of the command is wrong; nothing was sent",
    ExitCode.REFUSED: "the service refused: no such job, no right to it, an invalid token, a quota, a wrong value",
    ExitCode.UNREACHABLE: "the service, or the Hub behind it, did not answer",
}


class CommandRefused(AdminError):
    """An error of a command that cannot be carried out. The sentence says why and what to do."""

    exit_code = ExitCode.USAGE


class RefusedByService(CommandRefused):
    """An error: the service answered, and refused."""

    exit_code = ExitCode.REFUSED


class ServiceAway(CommandRefused):
    """An error: the service, or the Hub behind it, did not answer."""

    exit_code = ExitCode.UNREACHABLE
