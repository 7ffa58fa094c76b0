"""The table of routes, from which routing, authorisation, validation and the OpenAPI document are made."""

from functools import cache

from jupyter_gq.client import agents, models
from jupyter_gq.client.bounds import MAX_COUNT
from jupyter_gq.client.models.logs import LONGEST_TEXT
from jupyter_gq.domain.json_types import JsonObject

from .access import Access
from .call import Call, Reply
from .events import follow
from .handlers import audit, drains, jobs, nodes, notebooks, service
from .openapi import build_document
from .route import DONE, Media, Parameter, Route, Size
from .run_routes import CHECKED, RUN_ROUTES

LIMIT = Parameter(
    name="limit", type="integer", minimum=1, maximum=500, default=50, help="Largest number of entries in a page."
)
BEFORE = Parameter(name="before", help="The value of `next` in the previous page; 404 if that object is not there.")
OWNER = Parameter(name="owner", help="Admins only: a user's name, or * for all users.")
GROUP = Parameter(name="group", help="Only jobs of this group, such as a sweep.")
AUDIT_FILTERS = (
    LIMIT,
    Parameter(name="before", type="integer", maximum=MAX_COUNT, help="The value of `next` in the previous page."),
    Parameter(name="since", type="integer", help="Only entries from this time on, in seconds since the epoch."),
    Parameter(name="until", type="integer", help="Only entries from before this time, in seconds since the epoch."),
    Parameter(name="actor", help="Only acts of this user, service or other actor."),
    Parameter(name="action", help="Only acts of this kind, such as job.cancel."),
    Parameter(name="object", help="Only acts on this object, such as the id of a job."),
    Parameter(name="owner", help="Only acts on the work of this user."),
)
AFTER = Parameter(
    name="after", type="integer", maximum=MAX_COUNT, default=0, help="Number of the last piece that was read."
)
RESULT_PATH = Parameter(
    name="path",
    max_length=4096,
    help="Path of the result: that of a variable as the list names it, or `files/` and the path of a file.",
)
TASK = Parameter(
    name="task", type="integer", maximum=MAX_COUNT, help="Number of a task, from 0. Default: all, each with a headline."
)
LOG_TASK = Parameter(name="task", type="integer", maximum=MAX_COUNT, default=0, help="Number of a task, from 0.")
CONTAINS = Parameter(
    name="contains", max_length=LONGEST_TEXT, help="The text, as it is written; not given = all lines. No expression."
)
LINE = Parameter(
    name="line", type="integer", minimum=1, maximum=MAX_COUNT, default=1, help="Number of the line at `start`."
)
START = Parameter(name="start", type="integer", default=0, help="Number of the first byte.")
AFTER_EVENT = Parameter(
    name="after", type="integer", help="Id of the last event that was read. Default: only new events."
)
LAST_EVENT = Parameter(
    name="Last-Event-ID",
    help="Id of the last event that was read, as browsers send it; takes precedence over `after`.",
)
WAIT = Parameter(
    name="wait",
    type="integer",
    maximum=25,
    default=0,
    help="Seconds to wait for new orders.",
)
KEY = Parameter(
    name="Idempotency-Key",
    help="A repeated request with the same key returns the job that the first one has made. Another request with that "
    "key is refused (422 `key_reused`); the order of JSON keys, explicit defaults and the way an amount is "
    "written make no other request.",
    max_length=jobs.MAX_KEY,
)
CREATED = {201: "A new object was made.", 200: "The object existed already."}


@cache
def describe_api() -> JsonObject:
    """Return the OpenAPI document of the table `ROUTES` as JSON, made once."""
    return build_document(ROUTES)


def read_openapi(_: Call) -> Reply:
    """Answer everybody with the OpenAPI document of this service."""
    return Reply(body=describe_api())


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="health",
        access=Access.OPEN,
        summary="The health of the service: for everybody a status and codes, for admins with the reasons.",
        run=service.check_health,
        response=models.Health,
    ),
    Route(
        method="GET",
        path="ready",
        access=Access.PUBLIC,
        summary="The readiness of this service: ready if it leads and its database answers; 503 if not.",
        run=service.check_readiness,
        response=models.Readiness,
        refusals=(503,),
    ),
    Route(
        method="GET",
        path="openapi.json",
        access=Access.PUBLIC,
        summary="The OpenAPI document of this service.",
        run=read_openapi,
        response=Media.JSON,
    ),
    Route(
        method="GET",
        path="metrics",
        access=Access.MONITOR,
        summary="Metrics for Prometheus: for admins, and for services of the Hub.",
        run=service.read_metrics,
        response=Media.TEXT,
    ),
    Route(
        method="GET",
        path="me",
        access=Access.READ,
        summary="Your quota, the part of it that is left, the shares that you can choose, and your queues.",
        run=service.describe_user,
        response=models.Me,
    ),
    Route(
        method="GET",
        path="queues",
        access=Access.READ,
        summary="Totals of the queues that you are a member of, and of the queues above them; for admins, of all.",
        run=service.list_queues,
        response=models.QueueList,
    ),
    Route(
        method="GET",
        path="queues/{queue}/jobs",
        access=Access.READ,
        summary="The jobs of all users in a queue and those below it that have not ended, for its managers and admins.",
        run=jobs.list_queue,
        response=models.JobList,
        refusals=(404,),
        query=(LIMIT, BEFORE),
    ),
    Route(
        method="GET",
        path="devices",
        access=Access.READ,
        summary="All devices; only admins see who holds them.",
        run=service.list_devices,
        response=models.DeviceList,
    ),
    Route(
        method="GET",
        path="state",
        access=Access.ADMIN,
        summary="The scheduler's whole present input and its decision (`jupyter-gq snapshot`). For admins.",
        run=service.read_state,
        response=Media.JSON,
    ),
    Route(
        method="GET",
        path="drains",
        access=Access.ADMIN,
        summary="Nodes and devices that are taken out of service, with what still runs there. For admins.",
        run=drains.list_drains,
        response=models.DrainList,
    ),
    Route(
        method="POST",
        path="drains",
        access=Access.ADMIN,
        summary="Drain a node or a device (`jupyter-gq drain`). 409 if it is drained already. For admins.",
        run=drains.begin,
        request=models.DrainRequest,
        response=models.DrainView,
        statuses={201: "The node or device takes nothing new from now on."},
        refusals=(404, 409),
    ),
    Route(
        method="DELETE",
        path="drains/{drain}",
        access=Access.ADMIN,
        summary="Put a node or device back into service (`jupyter-gq undrain`). 409 if it is not drained. For admins.",
        run=drains.end,
        response=models.DrainView,
        statuses={200: "The node or device takes new work again."},
        refusals=(409,),
    ),
    Route(
        method="GET",
        path="nodes",
        access=Access.ADMIN,
        summary="What each node of a cluster can do for shares (`jupyter-gq doctor --nodes`). 404 without agents. For "
        "admins.",
        run=nodes.list_nodes,
        response=models.NodeList,
        refusals=(404,),
    ),
    Route(
        method="GET",
        path="audit",
        access=Access.ADMIN,
        summary="Who did what and when, newest first (`jupyter-gq audit`). For admins.",
        run=audit.read_audit_log,
        response=models.AuditPage,
        query=AUDIT_FILTERS,
    ),
    Route(
        method="GET",
        path="jobs",
        access=Access.READ,
        summary="Your jobs, newest first.",
        run=jobs.list_jobs,
        response=models.JobList,
        refusals=(404,),
        query=(LIMIT, BEFORE, OWNER, GROUP),
    ),
    Route(
        method="POST",
        path="jobs/preview",
        access=Access.READ,
        summary="Predict what would happen if this job were sent now. Nothing is stored.",
        run=jobs.preview,
        request=models.JobRequest,
        response=models.Preview,
        refusals=(403,),
    ),
    Route(
        method="POST",
        path="jobs/cancel",
        access=Access.CHANGE,
        summary="Cancel several jobs. Those that cannot be cancelled are named in the answer.",
        run=jobs.cancel_many,
        request=models.JobSelection,
        response=models.CancelledJobs,
        statuses={202: "The jobs will end."},
    ),
    Route(
        method="POST",
        path="jobs",
        access=Access.SUBMIT,
        summary="Send a job to training.",
        run=jobs.submit,
        request=models.JobSubmission,
        response=models.JobView,
        statuses=CREATED,
        refusals=(409, 429, 507),
        headers=(KEY,),
        size=Size.BUNDLE,
    ),
    Route(
        method="GET",
        path="jobs/{job}",
        access=Access.READ,
        summary="The present state of a job.",
        run=jobs.show,
        response=models.JobView,
    ),
    Route(
        method="POST",
        path="files/missing",
        access=Access.SUBMIT,
        summary="The parts of files of your project that the service lacks, and the limits of such files.",
        run=jobs.describe_files,
        request=models.PartsQuestion,
        response=models.FileStore,
        size=Size.DIGESTS,
    ),
    Route(
        method="POST",
        path="files",
        access=Access.SUBMIT,
        summary="Send parts of files of your project, for jobs that take them along.",
        run=jobs.add_files,
        request=models.FileParts,
        statuses=DONE,
        refusals=(429, 507),
        size=Size.FILES,
    ),
    Route(
        method="PATCH",
        path="jobs/{job}",
        access=Access.CHANGE,
        summary="Change a job, as its owner, a manager of its queue or an admin. 409 if the job has ended.",
        run=jobs.change,
        request=models.JobChange,
        response=models.JobView,
        refusals=(409,),
    ),
    Route(
        method="DELETE",
        path="jobs/{job}",
        access=Access.CHANGE,
        summary="Cancel a job. The job gets a moment to end; 409 if it has ended already.",
        run=jobs.cancel,
        response=models.JobView,
        statuses={202: "The job will end."},
        refusals=(409,),
    ),
    Route(
        method="DELETE",
        path="jobs/{job}/record",
        access=Access.DELETE,
        summary="Delete an ended job with all that is kept of it, as its owner or an admin. 409 before its end.",
        run=jobs.delete,
        response=models.JobView,
        statuses={202: "The job is hidden now and deleted soon."},
        refusals=(409,),
    ),
    Route(
        method="GET",
        path="jobs/{job}/outputs",
        access=Access.READ,
        summary="The next numbered pieces of output, at most 1000.",
        run=jobs.read_outputs,
        response=models.OutputPage,
        query=(AFTER,),
        verbatim=True,
    ),
    Route(
        method="GET",
        path="jobs/{job}/usage",
        access=Access.READ,
        summary="The GPU use and memory of a job over time in its last run, for those who may change the job.",
        run=jobs.read_usage,
        response=models.JobUsage,
    ),
    Route(
        method="GET",
        path="jobs/{job}/notebook",
        access=Access.READ,
        summary="The executed notebook so far; 404 before there is one.",
        run=jobs.read_notebook,
        response=Media.JSON,
        refusals=(409,),
    ),
    Route(
        method="GET",
        path="jobs/{job}/results",
        access=Access.READ,
        summary="The variables and files that a job brings back; 404 before there are some.",
        run=jobs.read_results,
        response=models.JobResults,
        refusals=(409,),
        verbatim=True,
    ),
    Route(
        method="GET",
        path="jobs/{job}/results/content",
        access=Access.READ,
        summary="The next bytes of one result of your job, at most 4 MiB; empty at its end. For the owner only.",
        run=jobs.read_result_part,
        response=Media.BYTES,
        refusals=(409,),
        query=(RESULT_PATH, START),
    ),
    Route(
        method="GET",
        path="jobs/{job}/log",
        access=Access.READ,
        summary="The last 64 KiB of the log of the last run, over all tasks or of one.",
        run=jobs.read_log,
        response=Media.TEXT,
        refusals=(409,),
        query=(TASK,),
    ),
    Route(
        method="GET",
        path="jobs/{job}/log/size",
        access=Access.READ,
        summary="How much of the log of the last run is kept, for each task, and what is dropped.",
        run=jobs.describe_log,
        response=models.JobLog,
        refusals=(409,),
    ),
    Route(
        method="GET",
        path="jobs/{job}/log/content",
        access=Access.READ,
        summary="The next bytes of the log of one task of the last run, at most 4 MiB; empty at its end.",
        run=jobs.read_log_part,
        response=Media.BYTES,
        refusals=(409,),
        query=(LOG_TASK, START),
    ),
    Route(
        method="GET",
        path="jobs/{job}/log/lines",
        access=Access.READ,
        summary="The next lines of the log of one task that have a text in them; searches at most 4 MiB at once.",
        run=jobs.find_log_lines,
        response=models.LogLines,
        refusals=(409,),
        query=(LOG_TASK, CONTAINS, START, LINE),
        verbatim=True,
    ),
    *RUN_ROUTES,
    Route(
        method="POST",
        path="agents/{node}/report",
        access=Access.AGENT,
        summary="Report what the agent of a node sees, and get its orders. Can wait until the orders change.",
        run=nodes.report,
        request=agents.AgentReport,
        response=agents.AgentOrders,
        query=(WAIT,),
    ),
    Route(
        method="POST",
        path="tickets",
        access=Access.SUBMIT,
        summary="Ask for a share for one of your servers, as its spawner does. 403 beyond your fixed quota.",
        run=notebooks.open_ticket,
        request=models.TicketRequest,
        response=models.TicketView,
        statuses=CREATED,
        refusals=(409, 429),
    ),
    Route(
        method="GET",
        path="tickets/{ticket}",
        access=Access.SUBMIT,
        summary="The present state of a ticket. A waiting ticket ends if nobody asks about it.",
        run=notebooks.show_ticket,
        response=models.TicketView,
    ),
    Route(
        method="DELETE",
        path="tickets/{ticket}",
        access=Access.SUBMIT,
        summary="Give back a share, or a place in the queue. A server that does not end within the grace is stopped.",
        run=notebooks.close_ticket,
        statuses=DONE,
    ),
    Route(
        method="PUT",
        path="tickets/{ticket}/process",
        access=Access.SUBMIT,
        summary="Report the process that holds the share.",
        run=notebooks.attach,
        request=models.ProcessReport,
        statuses=DONE,
        refusals=(409,),
    ),
    Route(
        method="GET",
        path="tickets/{ticket}/devices",
        access=Access.READ,
        summary="Whether a server in a pod sees its own devices and no others. Can wait for the result.",
        run=notebooks.check_devices,
        response=models.TaskDeviceCheck,
        query=(CHECKED,),
        refusals=(409,),
    ),
    Route(
        method="GET",
        path="notebooks",
        access=Access.READ,
        summary="Your notebooks that run or wait, newest first.",
        run=notebooks.list_notebooks,
        response=models.NotebookList,
        refusals=(404,),
        query=(LIMIT, BEFORE, OWNER),
    ),
    Route(
        method="POST",
        path="servers/{server}/activity",
        access=Access.SUBMIT,
        summary="Report the activity of a server's kernels. The default server is written as -.",
        run=notebooks.record_activity,
        request=models.ActivityReport,
        statuses=DONE,
    ),
    Route(
        method="POST",
        path="servers/{server}/keep",
        access=Access.SUBMIT,
        summary='Answer an idle warning with "Keep it". 409 if there is no warning, or the bound is reached.',
        run=notebooks.keep,
        response=models.NotebookView,
        refusals=(409,),
    ),
    Route(
        method="GET",
        path="events",
        access=Access.READ,
        summary="All changes as server-sent events; see the models ServiceEvent, JobView and NotebookView.",
        run=follow,
        response=Media.EVENTS,
        refusals=(429,),
        query=(AFTER_EVENT,),
        headers=(LAST_EVENT,),
    ),
)
