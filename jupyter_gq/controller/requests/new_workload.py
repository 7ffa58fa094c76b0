"""The workload of a new job, from a request that is checked completely."""

from jupyter_gq.client.models import JobFields
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.run_time_limits import make_run_time_limit
from jupyter_gq.controller.settings.config import Settings
from jupyter_gq.controller.settings.topology import list_levels, make_constraint
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.errors import NeverFits, Resource
from jupyter_gq.domain.workload import Kind, TopologyConstraint, Workload
from jupyter_gq.scheduling.preview import admission
from jupyter_gq.scheduling.wording import enumerate_names

from .job_checks import check_priority, check_tasks, find_usable_queue
from .job_devices import build_device_request, check_preferred_models
from .job_resources import explain_default, with_host_resources


def build_workload(context: Context, caller: Caller, request: JobFields, name: str) -> Workload:
    """Check a request completely, and return its workload with the id `name`. Nothing is stored.

    Raises `UnknownQueue`, `NotAMember`, `PriorityTooHigh`, `InvalidAmount`, or `NeverFits` if the job could never run.
    """
    settings = context.settings
    check_priority(find_usable_queue(settings, caller, request.queue), caller, request.priority)
    least = request.tasks if request.min_tasks is None else request.min_tasks
    check_tasks(context.backend_of(Kind.TRAINING), least, request.tasks)
    devices = build_device_request(context, request)
    workload = Workload(
        id=name,
        kind=Kind.TRAINING,
        owner=caller.user,
        name=request.name,
        queue=request.queue,
        request=with_host_resources(devices, request, settings.defaults_of(request.queue)),
        tasks=request.tasks,
        min_members=least,
        topology=_find_level(request.within, settings),
        priority=request.priority,
        estimate=None if request.expected_seconds is None else Seconds(request.expected_seconds),
        run_time_limit=make_run_time_limit(request.max_seconds, caller),
        submitted_at=context.clock.now(),
    )
    nodes = context.empty_snapshot([caller])
    check_preferred_models(nodes, settings.train_pool, request)
    try:
        admission.check_fits(nodes, workload)
    except NeverFits as refusal:
        raise explain_default(refusal, request) from refusal
    return context.with_memory_part(workload)


def _find_level(level: str | None, settings: Settings) -> TopologyConstraint | None:
    """Return the constraint for a level, None for None; raise `NeverFits` with the known levels for an unknown one."""
    if level is None:
        return None
    known = list_levels(settings.topology)
    if level not in known:
        raise NeverFits(
            f"You asked for all tasks within one {level}, but there is no such level. "
            f"Use {enumerate_names(known, 'or')}.",
            Resource.LEVEL,
        )
    return make_constraint(level)
