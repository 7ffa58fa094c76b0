"""`jupyter-gq jobs`: list the user's jobs."""

import argparse
from collections.abc import Sequence, Set
from typing import get_args

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.models import JobList, JobPhase, JobSummary
from jupyter_gq.domain.phases import ENDED
from jupyter_gq.domain.plain_text import quoted

from .clock import now
from .connecting.connection import add_service_arguments, ask_service
from .job_lists import HELD, QueueNotFound, format_jobs, is_held, list_jobs, list_jobs_of_queues
from .printing.answers import add_output_argument, print_json, print_lines, terminal_width


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq jobs`."""
    states = (*get_args(JobPhase), HELD)
    parser.add_argument(
        "--all", action="store_true", help="list ended jobs too (default: only jobs that wait, run or are paused)"
    )
    parser.add_argument(
        "--state",
        action="append",
        choices=states,
        metavar="STATE",
        help=f"only jobs in this state, one of {', '.join(states)}; may be repeated",
    )
    parser.add_argument("--queue", action="append", help="only jobs of this queue; may be repeated")
    parser.add_argument("--group", help="only jobs of this group, such as a sweep")
    parser.add_argument(
        "--owner",
        help='for administrators: jobs of this user, or with "*" of everybody; --owner "*" --queue QUEUE, without '
        "--all, is also for the managers of that queue",
    )
    add_output_argument(parser, "the object JobList of the API")
    add_service_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the jobs that the options let through, newest first, and return 0.

    Raises `CommandRefused` if the service cannot be asked or refuses.
    """
    found = ask_service(arguments, lambda client: _find_jobs(client, arguments))
    jobs = [
        job
        for job in found.jobs
        if (_is_in(job, arguments.state) if arguments.state else arguments.all or job.phase not in ENDED)
    ]
    if arguments.output == "json":
        print_json(found.model_copy(update={"jobs": jobs}))
    elif jobs:
        owners = arguments.owner is not None
        print_lines(format_jobs(jobs, now(), width=terminal_width(), owners=owners))
    else:
        print(_describe_none(arguments, len(found.jobs)))
    if arguments.output != "json" and (arguments.all or arguments.owner is not None):
        print_lines(_describe_space(found))
    return 0


def _describe_space(found: JobList) -> list[str]:
    """Return the lines on what the jobs of the owners take beside their limits; none if nothing was measured."""
    spaces = {"Files on disk": found.disk, "In the database": found.database}
    return [f"{name}: {said}" for name, said in spaces.items() if said]


def _is_in(job: JobSummary, states: Sequence[str]) -> bool:
    """Return whether the job is in one of these states; a held job is also waiting or paused."""
    return job.phase in states or (HELD in states and is_held(job))


async def _find_jobs(client: ServiceClient, arguments: argparse.Namespace) -> JobList:
    """Return the jobs of the owner and the queues that the options name, in any state.

    Ended jobs may be missing if the options would not show them. The jobs of everybody in a queue include those in the
    queues below it. Raises `QueueNotFound` for a queue that the user does not see.
    """
    wants_ended = arguments.all or not ENDED.isdisjoint(arguments.state or ())
    if arguments.owner == "*" and arguments.queue and not wants_ended and arguments.group is None:
        return await list_jobs_of_queues(client, arguments.queue)
    found = await list_jobs(client, arguments.owner, arguments.group)
    jobs = [job for job in found.jobs if not arguments.queue or job.queue in arguments.queue]
    if missing := set(arguments.queue or ()) - {job.queue for job in jobs}:
        await _expect_queues(client, missing)
    return found.model_copy(update={"jobs": jobs})


async def _expect_queues(client: ServiceClient, names: Set[str]) -> None:
    """Raise `QueueNotFound` if the user sees no queue of one of these names."""
    known = {queue.name for queue in (await client.queues()).queues}
    if unknown := sorted(names - known):
        listed = ", ".join(map(quoted, unknown))
        raise QueueNotFound(
            f"--queue: there is no queue {listed} that you may see. `jupyter-gq queues` lists those that there are."
        )


def _describe_none(arguments: argparse.Namespace, all_jobs: int) -> str:
    """Return the sentence for an empty list: what was looked for, and what shows more."""
    if arguments.state or arguments.queue or arguments.group is not None:
        return "No job matches these options."
    if not all_jobs:
        return "There are no jobs. `jupyter-gq submit` sends one."
    return "No job waits or runs. `jupyter-gq jobs --all` also lists jobs that have ended."
