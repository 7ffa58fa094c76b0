"""`jupyter-gq queues`: list the queues with their quotas and use."""

import argparse
from collections.abc import Sequence

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.models import QueueView

from .connecting.connection import add_service_arguments, ask_service
from .printing.answers import add_output_argument, print_json, print_lines, terminal_width
from .printing.tables import format_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq queues`."""
    add_output_argument(parser, "the object QueueList of the API")
    add_service_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the queues that the user may see, and return 0.

    Raises `CommandRefused` if the service cannot be asked or refuses.
    """
    found = ask_service(arguments, ServiceClient.queues)
    if arguments.output == "json":
        print_json(found)
    elif found.queues:
        print_lines(format_queues(found.queues, width=terminal_width()))
    else:
        print("You may use no queue. Ask your administrator.")
    return 0


def format_queues(queues: Sequence[QueueView], *, width: int | None) -> list[str]:
    """Return the queues as lines of a table; all amounts are GPUs."""
    rows = [["QUEUE", "POOL", "QUOTA", "USED", "BORROWED", "LIMIT", "RUNNING", "WAITING", "YOURS"]]
    rows += [
        [
            queue.name,
            queue.pool,
            queue.quota,
            queue.used,
            queue.over_quota,
            queue.limit or "-",
            str(queue.running),
            str(queue.waiting),
            "yes" if queue.member else "no",
        ]
        for queue in queues
    ]
    return format_table(rows, range(2, 8), width=width)
