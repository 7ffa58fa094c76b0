"""The `jupyter-gq` command."""

import argparse
import sys

from jupyter_gq import __version__


def main(argv: list[str] | None = None) -> int:
    """Run a subcommand; return its exit code."""
    arguments, rest = build_parser().parse_known_args(argv)
    if arguments.command == "service":
        from jupyter_gq.service import SchedulerService

        SchedulerService.launch_instance(rest)
        return 0
    if rest:
        build_parser().error(f"unknown arguments: {' '.join(rest)}")
    from jupyter_gq.demo import command

    return command.run(arguments)


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command."""
    from jupyter_gq.demo.command import add_arguments

    parser = argparse.ArgumentParser(
        prog="jupyter-gq", description="Fixed GPU quotas for notebooks and a training queue for cells."
    )
    parser.add_argument("--version", action="version", version=f"jupyter-gq {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="start the whole product on this machine")
    add_arguments(demo)
    commands.add_parser("service", help="the scheduler service (JupyterHub starts it)", add_help=False)
    return parser


if __name__ == "__main__":
    sys.exit(main())
