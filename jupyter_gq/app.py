"""The `jupyter-gq` command."""

import argparse
import os
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from importlib import import_module
from typing import Protocol, cast

from jupyter_gq.client.connection.early_answer import begin_early_answer
from jupyter_gq.client.plain_output import print_plain
from jupyter_gq.commands.printing.streams import prepare_streams, run_with_output
from jupyter_gq.commands.refusal import CommandRefused, ExitCode
from jupyter_gq.domain.bounded_json import make_whole
from jupyter_gq.domain.errors import AdminError
from jupyter_gq.domain.plain_text import quoted, shorten, strip_controls

from . import __version__
from .command_table import COMMANDS, GROUPS

#: Exit code of a program that Ctrl+C ended, as shells give it: 128 and the number of SIGINT.
_INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    """Run the subcommand that `argv` names, by default that of the command line; return its exit code.

    Bad arguments end the process with code 2. A missing Python module and an `AdminError` are printed, and give code 2;
    a `CommandRefused` chooses its code. Ctrl+C gives 130, and output that cannot be written 1.
    """
    prepare_streams()
    return run_with_output(lambda: _run_in_present_folder(sys.argv[1:] if argv is None else argv))


def _run_in_present_folder(argv: list[str]) -> int:
    """Run the subcommand that `argv` names, and return its exit code; tell if the present folder is deleted."""
    try:
        return _run_line(argv)
    except FileNotFoundError:
        try:
            os.getcwd()
        except FileNotFoundError:
            told = "the present folder does not exist any more. Go to another one (cd), and run the command again."
            print(f"jupyter-gq: {told}", file=sys.stderr)
            return ExitCode.USAGE
        raise


def _run_line(argv: list[str]) -> int:
    """Run the subcommand that `argv` names, and return its exit code."""
    parser = build_parser(_find_commands_with_options(argv))
    for text in argv:
        if make_whole(text) != text:
            parser.error(f"{quoted(text)} is not text in UTF-8")
    if not argv:
        parser.print_help(sys.stderr)
        return ExitCode.USAGE
    arguments, rest = parser.parse_known_args(argv)
    command = arguments.command
    name = COMMANDS[command].application
    try:
        if command == "service":
            begin_early_answer()  # before the imports, which take long on a slow machine
        module = import_module(COMMANDS[command].module)
    except ModuleNotFoundError as error:
        return _report_missing_module(command, error)
    if name:
        return _run_application(command, getattr(module, name).instance(), rest)
    if rest and not _take_late_names(arguments, rest):
        arguments.own_parser.error(f"unknown arguments: {strip_controls(shorten(' '.join(rest)))}")
    return _run_command(command, cast(_CommandModule, module).run, arguments)


def _run_application(command: str, application: "_Application", argv: list[str]) -> int:
    """Run a program whose arguments are settings; words that are no settings are refused before it starts."""
    try:
        application.initialize(argv)
        if application.extra_args:
            words = strip_controls(shorten(" ".join(application.extra_args)))
            print(f"jupyter-gq {command}: unknown arguments: {words}", file=sys.stderr)
            return ExitCode.USAGE
        application.start()
    except KeyboardInterrupt:
        return _INTERRUPTED
    return ExitCode.OK


def _find_commands_with_options(argv: list[str]) -> Collection[str]:
    """Return the commands whose options are needed to read a command line: the one that it names.

    The modules of all commands take a second to import. Only the script for a shell lists the options of all.
    """
    named = [text for text in argv if text in COMMANDS][:1]
    return COMMANDS if named == ["completion"] else named


def _take_late_names(arguments: argparse.Namespace, rest: list[str]) -> bool:
    """Add what stands behind an option to the list before it, at which argparse stops; return whether that is right.

    The list is that of files or of jobs. A script takes as its arguments what stands behind "--" alone.
    """
    end = rest.index("--") if "--" in rest else len(rest)
    names, behind = rest[:end], rest[end + 1 :]
    lists = ["files", "jobs"] if names else ["script_arguments", "files", "jobs"]
    found = next((each for each in lists if isinstance(getattr(arguments, each, None), list)), None)
    if found is None or any(each.startswith("-") for each in names):
        return False
    setattr(arguments, found, [*getattr(arguments, found), *names, *behind])
    return True


def _run_command(command: str, run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a subcommand, print the error that ends it, and return the exit code."""
    try:
        return run(arguments)
    except ModuleNotFoundError as error:
        return _report_missing_module(command, error)
    except AdminError as error:
        print_plain(f"jupyter-gq {command}: {error}", sys.stderr)
        return error.exit_code if isinstance(error, CommandRefused) else ExitCode.USAGE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except EOFError:  # Ctrl+D at a question
        print(f"jupyter-gq {command}: The input ended before an answer.", file=sys.stderr)
        return ExitCode.USAGE


class _GroupedHelp(argparse.ArgumentParser):
    """The parser of the whole command, whose help lists the subcommands in their groups."""

    def format_help(self) -> str:
        """Return the help: the usage, each group of commands with its title, and the options."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        (subcommands,) = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        lines = {line.dest: line for line in subcommands._get_subactions()}
        for title, commands in GROUPS.items():
            formatter.start_section(title)
            formatter.add_arguments([lines[name] for name in commands])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([action for action in self._actions if action is not subcommands])
        formatter.end_section()
        formatter.add_text("`jupyter-gq COMMAND --help` describes one command.")
        return formatter.format_help()


def build_parser(with_options: Collection[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of the whole command, with the options of these subcommands.

    A subcommand whose modules are not installed has no options either.
    """
    parser = _GroupedHelp(
        prog="jupyter-gq", description="Fixed GPU quotas for notebooks and a training queue for cells."
    )
    parser.add_argument("--version", action="version", version=f"jupyter-gq {__version__}")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=argparse.ArgumentParser
    )
    for name, command in COMMANDS.items():
        if command.application:
            commands.add_parser(name, help=command.help, add_help=False)
            continue
        parser_of_command = commands.add_parser(name, help=command.help, description=_sentence(command.help))
        parser_of_command.set_defaults(own_parser=parser_of_command)
        if name not in with_options:
            continue
        with suppress(ModuleNotFoundError):  # told when it is called
            cast(_CommandModule, import_module(command.module)).add_arguments(parser_of_command)
    commands.choices["completion"].set_defaults(parser=parser)
    return parser


class _CommandModule(Protocol):
    """The module of a command."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of the subcommand to its parser."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the subcommand, and return its exit code."""


class _Application(Protocol):
    """A program whose arguments are settings, such as `--SchedulerService.backend=local`."""

    #: The words of the command line that are neither options nor their values.
    extra_args: list[str]

    def initialize(self, argv: list[str]) -> None:
        """Read the settings from the command line and the configuration file."""

    def start(self) -> None:
        """Run the program until it ends."""


def _report_missing_module(command: str, error: ModuleNotFoundError) -> int:
    """Print which module is missing and how to install it; return the exit code 2. Raises the error for our modules."""
    if str(error.name).partition(".")[0] == "jupyter_gq":
        raise error
    needed = f"pip install 'jupyter-gq[{COMMANDS[command].extra}]'"
    print(f"jupyter-gq {command}: the Python module {error.name} is missing: {needed}", file=sys.stderr)
    return 2


def _sentence(text: str) -> str:
    """Return the text with a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    sys.exit(main())
