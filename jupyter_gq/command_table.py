"""The table of all commands, grouped as the help lists them. None of their modules is imported here."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A command of `jupyter-gq`: where it is, and what it needs."""

    #: Module with `add_arguments` and `run`, or with the application.
    module: str
    #: Extra of the package with what the module imports.
    extra: str
    #: Line of help, without a capital letter and a full stop.
    help: str
    #: Class of the application in the module, whose arguments are settings; "" = arguments of the command line.
    application: str = ""


#: The commands by their names, by the titles of their groups.
GROUPS: Mapping[str, Mapping[str, Command]] = {
    "your jobs": {
        "submit": Command("jupyter_gq.commands.submit", "cli", "send a notebook or a script to a training queue"),
        "jobs": Command("jupyter_gq.commands.jobs", "cli", "list your jobs"),
        "logs": Command("jupyter_gq.commands.logs", "cli", "print the outputs of a job, and follow them to its end"),
        "explain": Command("jupyter_gq.commands.explain", "cli", "say why a job waits and when it will probably start"),
        "results": Command("jupyter_gq.commands.results", "cli", "list or copy the files that a job wrote"),
        "hold": Command("jupyter_gq.commands.hold", "cli", "keep jobs from running until they are released"),
        "release": Command("jupyter_gq.commands.release", "cli", "let held jobs run again"),
        "move": Command("jupyter_gq.commands.move", "cli", "move jobs that do not run to another queue"),
        "change": Command(
            "jupyter_gq.commands.change", "cli", "change the priority, GPUs, tasks or maximum running time of jobs"
        ),
        "cancel": Command("jupyter_gq.commands.cancel", "cli", "cancel jobs"),
        "delete": Command("jupyter_gq.commands.delete", "cli", "delete ended jobs with all that is kept of them"),
        "queues": Command("jupyter_gq.commands.queues", "cli", "list the queues with their quotas and use"),
        "top": Command(
            "jupyter_gq.commands.top", "cli", "show devices, queues, notebooks and jobs, again and again on a terminal"
        ),
    },
    "your account and shell": {
        "login": Command("jupyter_gq.commands.login", "cli", "store the address of a service and your token for it"),
        "logout": Command("jupyter_gq.commands.logout", "cli", "delete the stored address and token"),
        "secret": Command(
            "jupyter_gq.commands.secret", "cli", "store, list and remove the secrets that your jobs may name"
        ),
        "completion": Command(
            "jupyter_gq.commands.completion", "cli", "print the script that completes this command in a shell"
        ),
    },
    "the machine and its configuration": {
        "demo": Command("jupyter_gq.demo.command", "demo", "start the whole product on this machine"),
        "doctor": Command(
            "jupyter_gq.doctor", "service", "say what this machine can do for GPU shares, and what to set for more"
        ),
        "devices": Command(
            "jupyter_gq.machine_devices", "service", "list the GPUs of this machine, their use and their shares"
        ),
        "check-devices": Command(
            "jupyter_gq.check_devices", "kubernetes", "find out which visibility of devices works on a node"
        ),
        "check-config": Command(
            "jupyter_gq.check_config",
            "service",
            "say what is wrong with a configuration file, and what it would change",
        ),
    },
    "administration": {
        "drain": Command(
            "jupyter_gq.planning.drain", "service", "take a GPU or a node out of service, or list what is"
        ),
        "undrain": Command("jupyter_gq.planning.undrain", "service", "put a GPU or a node back into service"),
        "audit": Command("jupyter_gq.planning.audit", "service", "print or export who did what and when"),
        "backup": Command(
            "jupyter_gq.store.backup_command", "service", "write the service's database to a file, while it runs"
        ),
        "restore": Command("jupyter_gq.store.restore_command", "service", "put a backup back into a database"),
        "copy-database": Command(
            "jupyter_gq.store.copy_command", "service", "copy the service's data to another database"
        ),
    },
    "planning": {
        "simulate": Command("jupyter_gq.planning.simulate", "service", "replay a trace on a given number of GPUs"),
        "snapshot": Command(
            "jupyter_gq.planning.snapshot", "service", "write the live state of the scheduler to a file"
        ),
        "replay": Command(
            "jupyter_gq.planning.replay", "service", "decide again on a state file and show the difference"
        ),
        "whatif": Command(
            "jupyter_gq.planning.whatif", "service", "change quotas, jobs or nodes of a state file and show the effect"
        ),
    },
    "started by JupyterHub or by the chart": {
        "service": Command("jupyter_gq.service", "service", "the scheduler service", application="SchedulerService"),
        "agent": Command(
            "jupyter_gq.agent.app", "kubernetes", "the agent of one node of a Kubernetes cluster", "NodeAgent"
        ),
    },
}

#: All commands by their names.
COMMANDS: Mapping[str, Command] = {name: command for group in GROUPS.values() for name, command in group.items()}
