"""Messages between the service and its clients. Amounts are text: GPUs "0.25", CPU cores "4", memory "16 GiB".

Times are seconds since the epoch, UTC. Unknown is None, never 0. The OpenAPI document is made from these models.
"""

from jupyter_gq.client.bounds import MAX_NAME

from .audit import AuditEntryView, AuditPage
from .bundles import Bundle, CellRef, Kernel, Manifest
from .changes import MOST_JOBS, CancelledJobs, JobChange, JobSelection, RefusedJob
from .drains import DrainList, DrainRequest, DrainView
from .events import EVENT_NAMES, ServiceEvent
from .evictions import Eviction
from .files import Carried, CarriedPickle, FileParts, FileStore, FrozenFile, PartsQuestion
from .health import Health, HealthCode, Readiness
from .jobs import (
    Alternative,
    ExpectedStart,
    JobError,
    JobFields,
    JobList,
    JobPhase,
    JobRequest,
    JobSubmission,
    JobSummary,
    JobView,
    PauseView,
    PauseWay,
    Preview,
    Progress,
    describe_excess_of_tasks,
)
from .logs import JobLog, LogLine, LogLines, TaskLog
from .nodes import NodeAbility, NodeDescription, NodeList
from .notebooks import (
    ActivityReport,
    IdleWarning,
    KernelActivity,
    MemoryExcessView,
    NotebookList,
    NotebookPhase,
    NotebookView,
    ProcessReport,
    SuspensionView,
    TicketRequest,
    TicketView,
)
from .outputs import AnyOutputEvent, OutputAck, OutputEvent, OutputNotice, OutputPage, OutputReport, SentOutputEvent
from .overview import Bounds, Choice, DeviceList, DeviceView, Me, PoolView, QueueList, QueueView
from .problems import Problem
from .results import JobResults, KeptResult, ResultFile, ResultsReport, ResultVariable
from .runs import Heartbeat, JobToken, RunSize, TaskDeviceCheck
from .usage import JobUsage, UnusedGpuView, UsagePoint

__all__ = [
    "EVENT_NAMES",
    "MAX_NAME",
    "MOST_JOBS",
    "ActivityReport",
    "Alternative",
    "AnyOutputEvent",
    "AuditEntryView",
    "AuditPage",
    "Bounds",
    "Bundle",
    "CancelledJobs",
    "Carried",
    "CarriedPickle",
    "CellRef",
    "Choice",
    "DeviceList",
    "DeviceView",
    "DrainList",
    "DrainRequest",
    "DrainView",
    "Eviction",
    "ExpectedStart",
    "FileParts",
    "FileStore",
    "FrozenFile",
    "Health",
    "HealthCode",
    "Heartbeat",
    "IdleWarning",
    "JobChange",
    "JobError",
    "JobFields",
    "JobList",
    "JobLog",
    "JobPhase",
    "JobRequest",
    "JobResults",
    "JobSelection",
    "JobSubmission",
    "JobSummary",
    "JobToken",
    "JobUsage",
    "JobView",
    "KeptResult",
    "Kernel",
    "KernelActivity",
    "LogLine",
    "LogLines",
    "Manifest",
    "Me",
    "MemoryExcessView",
    "NodeAbility",
    "NodeDescription",
    "NodeList",
    "NotebookList",
    "NotebookPhase",
    "NotebookView",
    "OutputAck",
    "OutputEvent",
    "OutputNotice",
    "OutputPage",
    "OutputReport",
    "PartsQuestion",
    "PauseView",
    "PauseWay",
    "PoolView",
    "Preview",
    "Problem",
    "ProcessReport",
    "Progress",
    "QueueList",
    "QueueView",
    "Readiness",
    "RefusedJob",
    "ResultFile",
    "ResultVariable",
    "ResultsReport",
    "RunSize",
    "SentOutputEvent",
    "ServiceEvent",
    "SuspensionView",
    "TaskDeviceCheck",
    "TaskLog",
    "TicketRequest",
    "TicketView",
    "UnusedGpuView",
    "UsagePoint",
    "describe_excess_of_tasks",
]
