"""`jupyter-gq change`: change the priority, the GPUs, the tasks or the maximum running time of jobs."""

import argparse

from jupyter_gq.client.models import JobChange, JobView
from jupyter_gq.domain.plain_text import BLANKS
from jupyter_gq.notebook.durations import parse_duration
from jupyter_gq.notebook.job_options import parse_whole

from .clock import now
from .job_acts import add_jobs_arguments, run_on_jobs
from .printing.tables import format_duration
from .refusal import CommandRefused

_NO_LIMIT = "none"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq change`."""
    parser.add_argument(
        "--priority", type=parse_whole, help="priority inside the queue, at most that which the queue allows"
    )
    parser.add_argument(
        "--gpus", help='GPUs of each task, such as "0.5"; only while the job waits; ends its suspended run'
    )
    parser.add_argument("--gpu-memory", help='instead of --gpus: GPU memory of each task, such as "12 GiB"')
    parser.add_argument(
        "--tasks",
        type=parse_whole,
        help="number of tasks; only while the job waits, and ends its suspended run as well",
    )
    parser.add_argument(
        "--min-tasks",
        type=parse_whole,
        metavar="TASKS",
        help="least number of tasks with which the job starts and runs on; the number of --tasks: all or none",
    )
    parser.add_argument(
        "--max-time",
        type=_parse_limit,
        metavar="TIME",
        help=f'how long the job may run, over all runs and without pauses, such as 90m or 12h; "{_NO_LIMIT}": as long '
        "as its queue says",
    )
    add_jobs_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Change each of the jobs; return 0 if that succeeded for all, otherwise 3.

    Raises `CommandRefused` if nothing is named that should change, or if the service cannot be asked.
    """
    wanted = {
        "priority": arguments.priority,
        "gpus": arguments.gpus,
        "gpu_memory": arguments.gpu_memory,
        "tasks": arguments.tasks,
        "min_tasks": arguments.min_tasks,
        "max_seconds": arguments.max_time,
    }
    if all(value is None for value in wanted.values()):
        raise CommandRefused(
            "Name what should change: --priority, --gpus, --gpu-memory, --tasks, --min-tasks or --max-time."
        )
    # The change is made where a wrong value is refused in a sentence.
    return run_on_jobs(
        arguments,
        lambda client, job: client.change(job, JobChange.model_validate(wanted)),
        _describe_limit if arguments.max_time is not None else lambda _: "",
    )


def _describe_limit(job: JobView) -> str:
    """Return how long a job has run of the time that it may run, and what follows if that is over for a paused one."""
    ran = job.ran_seconds + (0.0 if job.running_since is None else max(0.0, now() - job.running_since))
    if job.max_seconds is None:
        return "It may run for as long as it likes."
    told = f"It has run for {format_duration(ran)} of at most {format_duration(job.max_seconds)}; pauses do not count."
    if job.phase != "paused" or ran < job.max_seconds:
        return told
    when = "at its release" if job.held_since else "now"
    return f"{told} So it ends {when}, without a run in which it could save more."


def _parse_limit(text: str) -> float:
    """Return the limit in seconds, 0 for "none" and "0"; raise `ArgumentTypeError` for text in another form."""
    return 0.0 if text.strip(BLANKS) in {_NO_LIMIT, "0"} else parse_duration(text)
