"""`python -m jupyter_gq.runner JOB_DIR --run N --task I`: run the cells of a job; with `--pod`: as process 1 of a pod.

The owner of the cell waits for this start. Therefore the kernel is launched with the standard library alone, and
modules that are slow to import are imported while the kernel boots.
"""

import os
import sys


def main() -> int:
    """Run the task that the command line names, or with `--pod` the environment.

    Returns 0 if its cells ran or it was paused, and 1 if it failed. On a machine, this process becomes the supervisor
    of a child that does so, and ends with its exit status.
    """
    _remove_working_folder_from_path()
    # The second form is for a job that continues from another one: a runner of an older release does not know it, and
    # ends, in place of beginning from nothing.
    if not {"--pod", "--pod-continuing"}.isdisjoint(sys.argv[1:]):
        from .pod.main import run_pod

        return run_pod()
    import argparse
    from pathlib import Path

    from .boot import boot
    from .files.folder import RunFolder
    from .processes import supervise

    parser = argparse.ArgumentParser(prog="jupyter_gq.runner", description="Run the cells of a training job.")
    parser.add_argument("job_dir", type=Path, help="folder of the job")
    parser.add_argument("--run", type=int, required=True, help="number of the run, from 1")
    parser.add_argument("--task", type=int, default=0, help="number of the task, from 0")
    parser.add_argument("--ephemeral", action="store_true", help="the folder of the job is deleted after this run")
    parser.add_argument("--continue-from", default="", metavar="JOB", help="job with whose checkpoints this one begins")
    given = parser.parse_args()
    if not given.ephemeral:
        supervise()  # in a pod, process 1 is the supervisor
    folder = RunFolder(job=given.job_dir.resolve(), run=given.run, task=given.task)
    last_seq = int(os.environ.get("GQ_LAST_SEQ") or 0)
    return boot(folder, last_seq=last_seq, ephemeral=given.ephemeral, continue_from=given.continue_from)


def _remove_working_folder_from_path() -> None:
    """Remove the working folder from `sys.path`: the runner must not import a `random.py` of the user's from there."""
    if sys.path and not sys.flags.safe_path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]


if __name__ == "__main__":
    sys.exit(main())
