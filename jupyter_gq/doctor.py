"""`jupyter-gq doctor`: say what this machine can do for shares of GPUs, and what to install or set for more."""

import argparse

from pydantic import BaseModel

from jupyter_gq.commands.answers import add_output_argument, print_json, print_lines
from jupyter_gq.commands.refusal import ExitCode
from jupyter_gq.commands.tables import format_table
from jupyter_gq.devices.abilities import Ability, AbilityState, Machine, find_abilities
from jupyter_gq.devices.choose import choose_checkpointer
from jupyter_gq.devices.simulated import SimulatedProbe
from jupyter_gq.machine_devices import add_config_argument, open_probe


class Findings(BaseModel):
    """The abilities of this machine."""

    abilities: list[Ability]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq doctor`."""
    add_output_argument(parser, "an object with the list `abilities`")
    add_config_argument(parser)
    parser.epilog = (
        "Nothing is changed. The exit code is 1 if this machine cannot suspend GPU state. `unverified`: all that is "
        "needed is there, but no release has been tried with it on hardware."
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the abilities of this machine; return 1 if it cannot suspend GPU state, else 0.

    Raises `CommandRefused` if the configuration file cannot be read.
    """
    probe = open_probe(arguments.config)
    support = choose_checkpointer(probe).support()
    abilities = find_abilities(Machine(), probe.status(), support, simulated=isinstance(probe, SimulatedProbe))
    if arguments.output == "json":
        print_json(Findings(abilities=list(abilities)))
    else:
        print_lines(format_abilities(abilities))
    return ExitCode.OK if support.available else ExitCode.FAILED


def format_abilities(abilities: tuple[Ability, ...]) -> list[str]:
    """Return the abilities as lines of a table, and below it what to do for those that are not there."""
    rows = [["ABILITY", "STATE", "FOUND"], *([each.name, each.state.value, each.found] for each in abilities)]
    advice = [f"{each.name}: {each.advice}" for each in abilities if each.advice]
    unverified = any(each.state is AbilityState.UNVERIFIED for each in abilities)
    return [
        *format_table(rows),
        *(["", "For more:", *(f"  {line}" for line in advice)] if advice else []),
        *(["", "unverified: not tried on hardware by any release."] if unverified else []),
    ]
