"""The routes of a job's runner, which the table `api.routes` includes."""

from jupyter_gq.client import models
from jupyter_gq.client.bounds import MAX_COUNT

from .access import Access
from .handlers import runs
from .route import DONE, Media, Parameter, Route, Size
from .wiring import LOG_BODY

PART = Parameter(name="start", type="integer", maximum=MAX_COUNT, default=0, help="Number of the first part.")
CHECKED = Parameter(name="wait", type="integer", maximum=25, default=0, help="Seconds to wait for the result.")
#: The numbers of all bytes of a text of the log stay below 2**53, up to which every reader of JSON can count.
LOG_START = Parameter(
    name="start",
    type="integer",
    maximum=2**53 - LOG_BODY,
    help="Number of the first byte of this text in the whole log.",
)

RUN_ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="jobs/{job}/outputs",
        access=Access.JOB_TOKEN,
        summary="Deliver pieces of output, as the job's runner does: in order and without a gap.",
        run=runs.append_outputs,
        request=models.OutputReport,
        response=models.OutputAck,
        refusals=(507,),
        size=Size.OUTPUTS,
    ),
    Route(
        method="POST",
        path="jobs/{job}/heartbeat",
        access=Access.JOB_TOKEN,
        summary="Report that the job's runner is alive.",
        run=runs.record_heartbeat,
        request=models.Heartbeat,
        statuses=DONE,
    ),
    Route(
        method="POST",
        path="jobs/{job}/token",
        access=Access.POD,
        summary="Exchange the token of a pod for the token of its task. Possible until the task has its bundle.",
        run=runs.exchange_token,
        response=models.JobToken,
        refusals=(409,),
    ),
    Route(
        method="GET",
        path="jobs/{job}/bundle",
        access=Access.JOB_TOKEN,
        summary="The files of a job for its pod: the bundle and, after a pause, the executed notebook so far.",
        run=runs.read_bundle,
        response=Media.JSON,
    ),
    Route(
        method="GET",
        path="jobs/{job}/files",
        access=Access.JOB_TOKEN,
        summary="The next parts of the files that a job takes along, in the order of its manifest, for its pod.",
        run=runs.read_files,
        response=Media.BYTES,
        query=(PART,),
    ),
    Route(
        method="GET",
        path="jobs/{job}/devices",
        access=Access.JOB_TOKEN,
        summary="Whether a task in a pod sees its own devices and no others. Can wait for the result.",
        run=runs.check_devices,
        response=models.TaskDeviceCheck,
        query=(CHECKED,),
    ),
    Route(
        method="GET",
        path="jobs/{job}/size",
        access=Access.JOB_TOKEN,
        summary="The tasks that a job has now, for the pods of a job whose number of tasks changes.",
        run=runs.read_size,
        response=models.RunSize,
        refusals=(409,),
    ),
    Route(
        method="PUT",
        path="jobs/{job}/log",
        access=Access.JOB_TOKEN,
        summary="Append to the log of a task that runs in a pod; without `start`, store the end of that log.",
        run=runs.store_log,
        request=Media.TEXT,
        statuses=DONE,
        query=(LOG_START,),
        refusals=(507,),
        size=Size.LOG,
    ),
    Route(
        method="POST",
        path="jobs/{job}/results/parts",
        access=Access.JOB_TOKEN,
        summary="Send parts of the variables and files that a job in a pod brings back.",
        run=runs.add_result_parts,
        request=models.FileParts,
        statuses=DONE,
        refusals=(429, 507),
        size=Size.FILES,
    ),
    Route(
        method="PUT",
        path="jobs/{job}/results",
        access=Access.JOB_TOKEN,
        summary="Store the list of what a job in a pod brings back; the parts were sent before.",
        run=runs.store_results,
        request=models.ResultsReport,
        statuses=DONE,
        refusals=(409, 413, 507),
        size=Size.DIGESTS,
    ),
)
