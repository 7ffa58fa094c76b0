"""The `jupyter-gq` command."""

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Protocol, cast

from jupyter_gq.client.early_answer import begin_early_answer
from jupyter_gq.commands.refusal import CommandRefused, ExitCode
from jupyter_gq.commands.streams import prepare_streams, run_with_output
from jupyter_gq.domain.bounded_json import make_whole
from jupyter_gq.domain.errors import AdminError
from jupyter_gq.domain.plain_text import quoted, shorten

from . import __version__

#: Each command: the module with its `add_arguments` and `run`, the extra with what it needs, and its line of help.
COMMANDS = {
    "demo": ("jupyter_gq.demo.command", "demo", "start the whole product on this machine"),
    "login": ("jupyter_gq.commands.login", "cli", "store the address of a service and your token for it"),
    "secret": ("jupyter_gq.commands.secret", "cli", "store, list and remove the secrets that your jobs may name"),
    "logout": ("jupyter_gq.commands.logout", "cli", "delete the stored address and token"),
    "submit": ("jupyter_gq.commands.submit", "cli", "send a notebook or a script to a training queue"),
    "jobs": ("jupyter_gq.commands.jobs", "cli", "list your jobs"),
    "queues": ("jupyter_gq.commands.queues", "cli", "list the queues with their quotas and use"),
    "explain": ("jupyter_gq.commands.explain", "cli", "say why a job waits and when it will probably start"),
    "logs": ("jupyter_gq.commands.logs", "cli", "print the outputs of a job, and follow them to its end"),
    "results": ("jupyter_gq.commands.results", "cli", "list or copy the files that a job wrote"),
    "hold": ("jupyter_gq.commands.hold", "cli", "keep jobs from running until they are released"),
    "release": ("jupyter_gq.commands.release", "cli", "let held jobs run again"),
    "move": ("jupyter_gq.commands.move", "cli", "move jobs that do not run to another queue"),
    "change": ("jupyter_gq.commands.change", "cli", "change the priority, GPUs, tasks or maximum running time of jobs"),
    "cancel": ("jupyter_gq.commands.cancel", "cli", "cancel jobs"),
    "top": ("jupyter_gq.commands.top", "cli", "show devices, queues and jobs, again and again on a terminal"),
    "completion": ("jupyter_gq.commands.completion", "cli", "print the script that completes this command in a shell"),
    "snapshot": ("jupyter_gq.planning.snapshot", "service", "write the live state of the scheduler to a file"),
    "drain": ("jupyter_gq.planning.drain", "service", "take a GPU or a node out of service, or list what is"),
    "undrain": ("jupyter_gq.planning.undrain", "service", "put a GPU or a node back into service"),
    "audit": ("jupyter_gq.planning.audit", "service", "print or export who did what and when"),
    "replay": ("jupyter_gq.planning.replay", "service", "decide again on a state file and show the difference"),
    "whatif": (
        "jupyter_gq.planning.whatif",
        "service",
        "change quotas, jobs or nodes of a state file and show the effect",
    ),
    "check-devices": (
        "jupyter_gq.check_devices",
        "kubernetes",
        "find out which visibility of devices works on a node",
    ),
    "devices": ("jupyter_gq.machine_devices", "service", "list the GPUs of this machine, their use and their shares"),
    "doctor": ("jupyter_gq.doctor", "service", "say what this machine can do for GPU shares, and what to set for more"),
    "backup": ("jupyter_gq.store.backup_command", "service", "write the service's database to a file, while it runs"),
    "restore": ("jupyter_gq.store.restore_command", "service", "put a backup back into a database"),
    "copy-database": ("jupyter_gq.store.copy_command", "service", "copy the service's data to another database"),
    "check-config": (
        "jupyter_gq.check_config",
        "service",
        "say what is wrong with a configuration file, and what it would change",
    ),
    "simulate": ("jupyter_gq.planning.simulate", "service", "replay a trace on a given number of GPUs"),
}
#: Each command that reads its own arguments, as settings: its module, its class, the extra and its line of help.
APPLICATIONS = {
    "service": ("jupyter_gq.service", "SchedulerService", "service", "the scheduler service (JupyterHub starts it)"),
    "agent": ("jupyter_gq.agent.app", "NodeAgent", "kubernetes", "the agent of one node of a Kubernetes cluster"),
}
#: Exit code of a program that Ctrl+C ended, as shells give it: 128 and the number of SIGINT.
_INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    """Run the subcommand that `argv` names, by default that of the command line; return its exit code.

    Bad arguments end the process with code 2. A missing Python module and an `AdminError` are printed, and give code 2;
    a `CommandRefused` chooses its code. Ctrl+C gives 130, and output that cannot be written 1.
    """
    prepare_streams()
    return run_with_output(lambda: _run_line(sys.argv[1:] if argv is None else argv))


def _run_line(argv: list[str]) -> int:
    """Run the subcommand that `argv` names, and return its exit code."""
    parser = build_parser()
    for text in argv:
        if make_whole(text) != text:
            parser.error(f"{quoted(text)} is not text in UTF-8")
    arguments, rest = parser.parse_known_args(argv)
    command = arguments.command
    try:
        if command in APPLICATIONS:
            module, name, *_ = APPLICATIONS[command]
            if command == "service":
                begin_early_answer()  # before the imports, which take long on a slow machine
            application = getattr(import_module(module), name)
        else:
            run = _command(command).run
    except ModuleNotFoundError as error:
        return _report_missing_module(command, error)
    if command in APPLICATIONS:
        application.launch_instance(rest)
        return 0
    if rest and not _take_late_names(arguments, rest):
        parser.error(f"unknown arguments: {shorten(' '.join(rest))}")
    return _run_command(command, run, arguments)


def _take_late_names(arguments: argparse.Namespace, rest: list[str]) -> bool:
    """Add what stands behind an option to the list before it, at which argparse stops; return whether that is right.

    The list is that of the arguments of a script, behind "--", or else of files or of jobs.
    """
    is_script = rest[0] == "--"
    late, lists = (rest[1:], ["script_arguments"]) if is_script else (rest, ["files", "jobs"])
    name = next((each for each in lists if isinstance(getattr(arguments, each, None), list)), None)
    if name is None or (not is_script and any(each.startswith("-") for each in late)):
        return False
    setattr(arguments, name, [*getattr(arguments, name), *late])
    return True


def _run_command(command: str, run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a subcommand, print the error that ends it, and return the exit code."""
    try:
        return run(arguments)
    except ModuleNotFoundError as error:
        return _report_missing_module(command, error)
    except AdminError as error:
        print(f"jupyter-gq {command}: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, CommandRefused) else ExitCode.USAGE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except EOFError:  # Ctrl+D at a question
        print(f"jupyter-gq {command}: The input ended before an answer.", file=sys.stderr)
        return ExitCode.USAGE


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command; a subcommand whose modules are not installed has no options."""
    parser = argparse.ArgumentParser(
        prog="jupyter-gq", description="Fixed GPU quotas for notebooks and a training queue for cells."
    )
    parser.add_argument("--version", action="version", version=f"jupyter-gq {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (*_, help_text) in COMMANDS.items():
        parser_of_command = commands.add_parser(name, help=help_text, description=_sentence(help_text))
        with suppress(ModuleNotFoundError):  # told when it is called
            _command(name).add_arguments(parser_of_command)
    commands.choices["completion"].set_defaults(parser=parser)
    for name, (*_, help_text) in APPLICATIONS.items():
        commands.add_parser(name, help=help_text, add_help=False)
    return parser


class _Command(Protocol):
    """The module of a command."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of the subcommand to its parser."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the subcommand, and return its exit code."""


def _command(name: str) -> _Command:
    return cast(_Command, import_module(COMMANDS[name][0]))


def _report_missing_module(command: str, error: ModuleNotFoundError) -> int:
    """Print which module is missing and how to install it; return the exit code 2. Raises the error for our modules."""
    if str(error.name).partition(".")[0] == "jupyter_gq":
        raise error
    *_, extra, _ = (COMMANDS | APPLICATIONS)[command]
    print(
        f"jupyter-gq {command}: the Python module {error.name} is missing: pip install 'jupyter-gq[{extra}]'",
        file=sys.stderr,
    )
    return 2


def _sentence(text: str) -> str:
    """Return the text with a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    sys.exit(main())
