"""Functions sent to training: `jupyter_gq.submit`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from jupyter_gq.domain.plain_text import shorten

from .handle import Job, find_job_id
from .options import MAX_NAME, check_function, list_names, make_plain
from .pickled_call import (
    check_arguments,
    check_call,
    describe_call,
    name_function,
    pickle_call,
    this_python,
)
from .results import RETURNED
from .server import JobError, Server, find_folder, find_kernel_id, find_server

if TYPE_CHECKING:
    from .pickled_call import Function


def submit(  # noqa: PLR0913 - the options of a job are keywords of the one function that users call
    function: Function,
    /,
    *args: object,
    gpus: float | str = 1,
    gpu_memory: float | str | None = None,
    queue: str = "",
    name: str = "",
    cpus: float | str | None = None,
    memory: float | str | None = None,
    gpu_model: str | None = None,
    preferred_gpu_models: str | Sequence[str] = (),
    tasks: int = 1,
    min_tasks: int | None = None,
    within: str | None = None,
    priority: int = 0,
    expected_seconds: float | None = None,
    max_seconds: float | None = None,
    secrets: str | Sequence[str] = (),
    also: str | Sequence[str] = (),
    software: str = "",
    continue_from: str | Job = "",
    check: bool = True,
    **kwargs: object,
) -> Job:
    """Send `function(*args, **kwargs)` to a training queue as a job of its own, and return its handle at once.

    The function and its arguments are pickled with cloudpickle: functions and classes of cells and modules of the
    present folder go along, all other packages are imported in the job. The job has the kernel of this notebook unless
    `software` names another one, and runs in its folder. For a keyword of the function that has the name of an option,
    use `functools.partial`.

    - `gpus`: GPUs of each task: 0, a fraction such as 0.25, or a whole number.
    - `gpu_memory`: GPU memory of each task, such as "12 GiB", instead of a fraction of a GPU.
    - `queue`: the training queue; "" is the only queue that you may use.
    - `name`: the name of the job; "" is that of the function.
    - `cpus`, `memory`: CPU cores and memory of each task, such as 4 and "16 GiB"; None is what the queue says.
    - `gpu_model`: only GPUs of this model; None is any.
    - `preferred_gpu_models`: models of GPU that are tried first, in this order.
    - `tasks`: the number of tasks, which start together. Each calls the function; the first one's value comes back.
    - `min_tasks`: the least number of tasks: the job starts with so many, then grows and shrinks; None is all of them.
    - `within`: "node", or another level of the cluster such as "rack", in one domain of which all tasks run.
    - `priority`: the priority inside the queue; a higher one goes first.
    - `expected_seconds`: how long the job will probably run, for forecasts.
    - `max_seconds`: how long the job may run, over all runs and without pauses; then it saves its state and ends.
    - `secrets`: names of stored secrets that the job finds in variables of these names.
    - `also`: files of the present folder to take along, such as "*.yaml" or ["conf/", "*.csv"], as in `.gitignore`.
      Prints which pattern no file fits.
    - `software`: the name of an image that the administrator offers, or of another kernel of this server, with the
      same minor version of Python as this one; "" is the software of this notebook.
    - `continue_from`: an ended job with a copy of whose checkpoints the job begins: `checkpoint_dir()` then has them. A
      handle, or what `jupyter_gq.job` takes: an id, the beginning of one, or "last". "" is none.
    - `check`: whether the function is loaded in a new process before anything is sent.

    Raises `TypeError` for arguments that do not fit the function and for async and generator functions, `ValueError`
    for numbers that are not finite, and `JobError` with the reason if the function cannot be sent or the service
    refuses the job.
    """
    check_function(function, "submit takes a function and its arguments")
    check_arguments(function, args, kwargs)
    find_folder()  # raises if it was deleted
    options: dict[str, object] = {
        "gpus": gpus,
        "gpu_memory": gpu_memory,
        "queue": queue,
        "name": name,
        "cpus": cpus,
        "memory": memory,
        "gpu_model": gpu_model,
        "preferred_gpu_models": list_names("preferred_gpu_models", preferred_gpu_models),
        "tasks": tasks,
        "min_tasks": min_tasks,
        "within": within,
        "priority": priority,
        "expected_seconds": expected_seconds,
        "max_seconds": max_seconds,
        "secrets": list_names("secrets", secrets),
        # See docs/decisions/0272-let-functions-name-their-files-by-patterns.md.
        "file_patterns": list_names("also", also, each="pattern"),
        "software": software,
        "continue_from": find_job_id(continue_from),
    }
    options = make_plain(options)
    options["name"] = shorten(name or name_function(function), MAX_NAME)
    server = find_server()
    find_kernel_id()  # raises in a process that is no kernel
    text = pickle_call(function, args, kwargs)
    if check:
        check_call(text)
    job, notes = send_pickled(server, text, describe_call(function, args, kwargs), options)
    print_notes(notes)
    return job


def print_notes(notes: Sequence[str]) -> None:
    """Print the notes of the server about a job that was sent."""
    for note in notes:
        print(note)  # noqa: T201


def send_pickled(server: Server, text: str, described: str, options: Mapping[str, object]) -> tuple[Job, Sequence[str]]:
    """Send a call that is pickled as `text` with these fields of a job; return its handle, and the server's notes."""
    body = {
        **options,
        "key": uuid.uuid4().hex,
        "kernel_id": find_kernel_id(),
        "cwd": find_folder(),
        "setup": [
            f"# {described}: the function and its arguments, as jupyter_gq.submit has pickled them.\n"
            "from jupyter_gq.notebook.pickled_call import load_call as _load_call\n"
            f"_call = _load_call({this_python()!r}, {text!r})"
        ],
        "source": f"# {described}\n{RETURNED} = _call()",
        "returns": [RETURNED],
    }
    answer = server.post("jobs", body=body)
    return read_sent_job(server, answer, body), cast("Sequence[str]", answer["notes"])


def read_sent_job(server: Server, answer: Mapping[str, object], body: Mapping[str, object]) -> Job:
    """Return the handle of the job in the answer to this request.

    If the job does not continue from the one that was named, it is cancelled, and `JobError` is raised: the Jupyter
    server is of an older release, and ignores that field.
    """
    job, view = Job(server, cast("Mapping[str, object]", answer["job"])), cast("Mapping[str, object]", answer["job"])
    if body.get("continue_from") and view.get("continue_from") != body["continue_from"]:
        job.cancel()
        raise JobError(
            f"{job.id} would have begun without the checkpoints of {body['continue_from']}, so it was cancelled: this "
            "Jupyter server has an older release of jupyter-gq. Ask your administrator to update it."
        )
    return job
