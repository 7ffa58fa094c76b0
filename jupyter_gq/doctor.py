"""`jupyter-gq doctor`: say what this machine can do for shares of GPUs, and what to install or set for more.

With `--nodes`, the service says the same of the nodes of a cluster, as their agents found it.
See docs/decisions/0170-ask-agents-what-their-nodes-can-do.md.
"""

import argparse

from pydantic import BaseModel

from jupyter_gq.backends.local.tasks import check_enter
from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.commands.connecting.connection import add_service_arguments, ask_service
from jupyter_gq.commands.node_abilities import find_trouble, format_nodes
from jupyter_gq.commands.printing.answers import add_output_argument, print_json, print_lines, terminal_width
from jupyter_gq.commands.printing.tables import format_table
from jupyter_gq.commands.refusal import CommandRefused, ExitCode
from jupyter_gq.devices.abilities import Ability, AbilityState, Machine, find_abilities, judge_journal
from jupyter_gq.devices.choose import choose_checkpointer
from jupyter_gq.devices.linux.processes import boot_id
from jupyter_gq.devices.simulated.devices import SimulatedProbe
from jupyter_gq.devices.suspension.journal import FileJournal
from jupyter_gq.domain.errors import AdminError
from jupyter_gq.machine_devices import (
    add_config_argument,
    find_journal,
    find_limits,
    judge_support,
    open_probe,
    read_settings,
)


class Findings(BaseModel):
    """The abilities of this machine."""

    abilities: list[Ability]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq doctor`."""
    add_output_argument(parser, "an object with the list `abilities`, or with the list `nodes`")
    which = parser.add_mutually_exclusive_group()
    add_config_argument(which)
    which.add_argument(
        "--nodes",
        action="store_true",
        help="ask the service what the nodes of the cluster can do, as their agents found it; for administrators",
    )
    add_service_arguments(parser, admin=True)
    parser.epilog = (
        "Nothing is changed. The exit code is 1 if this machine cannot start jobs or suspend GPU state, and with "
        "--nodes if a node takes no new shares, or if its agent does not tell what it can do. `unverified`: all that "
        f"is needed is there, but no release has been tried with it on hardware. {parser.epilog}"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the abilities of this machine, or of all nodes; return 1 if something is wrong, else 0.

    Wrong is a machine that cannot start jobs or suspend GPU state, or a node that takes no new shares or is not known.
    Raises `CommandRefused` if the configuration file cannot be read, or if the service cannot be asked or refuses.
    """
    if arguments.nodes:
        return _run_for_nodes(arguments)
    if arguments.url is not None:
        raise CommandRefused("--url names a service, which is asked with --nodes only. Add --nodes.")
    settings = read_settings(arguments.config)
    probe = open_probe(settings)
    limits = find_limits(settings, probe)
    support = judge_support(probe, choose_checkpointer(probe).support(), limits.mps_devices)
    abilities = find_abilities(
        Machine(), probe.status(), support, simulated=isinstance(probe, SimulatedProbe), limits=limits
    )
    starts = judge_starts()
    abilities += (starts,)
    abilities += judge_journal(FileJournal(find_journal(settings), boot=boot_id()).trouble)
    if arguments.output == "json":
        print_json(Findings(abilities=list(abilities)))
    else:
        print_lines(format_abilities(abilities))
    return ExitCode.OK if support.available and starts.state is AbilityState.WORKS else ExitCode.FAILED


def judge_starts() -> Ability:
    """Return the ability of a service on this machine to start jobs, which is tried."""
    name = "start of jobs"
    try:
        check_enter()
    except AdminError as error:
        return Ability(name=name, state=AbilityState.MISSING, found=str(error))
    return Ability(name=name, state=AbilityState.WORKS, found="A process can enter the working folder of its job.")


def _run_for_nodes(arguments: argparse.Namespace) -> int:
    """Print the abilities of all nodes of the service's cluster; return 1 if one takes no new shares, else 0."""
    found = ask_service(arguments, ServiceClient.nodes)
    if arguments.output == "json":
        print_json(found)
    else:
        print_lines(format_nodes(found.nodes, width=terminal_width()))
    return ExitCode.FAILED if find_trouble(found.nodes) else ExitCode.OK


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
