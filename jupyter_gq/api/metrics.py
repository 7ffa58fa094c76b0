"""Metrics in the text form of Prometheus, named jupyter_gq_<noun>_<verb>_<unit>, without user names in labels.

A service that waits for its place has one metric, which says so: Prometheus would report a target that refuses as down.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from jupyter_gq.connections.limits import ConnectionCounts
from jupyter_gq.controller.caller import Caller

from .services import Services, Status

#: May see every queue and device. Only sums of what it sees leave this module.
_EVERYTHING = Caller(user="service/metrics", groups=frozenset(), admin=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A metric with its present values."""

    name: str
    help: str
    #: A counter only grows, until the service starts again.
    kind: Literal["gauge", "counter"] = "gauge"
    #: (labels, value)
    samples: list[tuple[dict[str, str], float]] = field(default_factory=list)


def exposition(status: Status, services: Services | None, counts: ConnectionCounts) -> str:
    """Return all metrics in the text format of Prometheus; `services` is None while another service leads."""
    return "".join(line + "\n" for metric in metrics(status, services, counts) for line in _lines(metric))


def metrics(status: Status, services: Services | None, counts: ConnectionCounts) -> Iterator[Metric]:
    """Yield all metrics with their present values; if `services` is None, only `jupyter_gq_service_leads`."""
    leads = services is not None
    yield _gauge("jupyter_gq_service_leads", "1 on the service that leads, 0 on a service that waits.", leads)
    if services is None:
        return
    yield from _connections(counts)
    health = status.check_health()
    yield _gauge("jupyter_gq_service_found_degraded", "1 while the service has a problem.", health.status != "ok")
    yield _gauge("jupyter_gq_policy_found_wrong", "1 while a configuration error is ignored.", health.policy != "ok")
    yield _gauge("jupyter_gq_runs_found_unseen", "1 while running work cannot be observed.", health.runs != "ok")
    yield _gauge(
        "jupyter_gq_workload_found_unusable",
        "Workloads that the service cannot read, decide on or show; its log names them.",
        len(health.set_aside),
    )
    troubled = services.tickets.count_troubled()
    yield _gauge("jupyter_gq_notebook_found_troubled", "Running notebooks that have a problem.", troubled)
    count, memory = services.tickets.count_suspended()
    yield _gauge("jupyter_gq_share_suspended_notebooks", "Notebooks whose devices are lent.", count)
    yield _gauge("jupyter_gq_share_suspended_bytes", "Host memory of the GPU state of these notebooks.", memory << 20)
    kept, fullest = services.job_lists.count_kept()
    yield _gauge("jupyter_gq_database_kept_bytes", "Outputs and files of jobs that the database keeps.", kept)
    yield _gauge(
        "jupyter_gq_database_filled_ratio",
        "Part of the limit of one user that the user takes of whom most is kept.",
        fullest,
    )
    queues = services.overview.list_queues(_EVERYTHING).queues
    for name, help_text, attribute in (
        ("jupyter_gq_queue_granted_gpus", "Guaranteed quota of the queue.", "quota"),
        ("jupyter_gq_queue_used_gpus", "GPUs in use by the queue.", "used"),
        ("jupyter_gq_queue_borrowed_gpus", "GPUs in use above the quota, which may be reclaimed.", "over_quota"),
        ("jupyter_gq_queue_waiting_jobs", "Jobs that wait.", "waiting"),
        ("jupyter_gq_queue_running_jobs", "Jobs that hold devices.", "running"),
    ):
        labelled = [({"queue": queue.name}, float(getattr(queue, attribute))) for queue in queues]
        yield Metric(name=name, help=help_text, samples=labelled)
    devices = services.overview.list_devices(_EVERYTHING).devices
    places = [({"pool": device.pool, "device": device.id}, device) for device in devices]
    yield Metric(
        name="jupyter_gq_device_used_gpus",
        help="Part of the device that workloads hold.",
        samples=[(labels, float(device.used)) for labels, device in places],
    )
    yield Metric(
        name="jupyter_gq_device_found_healthy",
        help="1 while the device can be used.",
        samples=[(labels, float(device.healthy)) for labels, device in places],
    )
    yield Metric(
        name="jupyter_gq_device_found_drained",
        help="1 while the device is taken out of service.",
        samples=[(labels, float(device.draining)) for labels, device in places],
    )


def _connections(counts: ConnectionCounts) -> Iterator[Metric]:
    """Yield the metrics of the connections to the service."""
    yield _gauge("jupyter_gq_service_opened_connections", "Open connections to the service.", counts.connections)
    yield _gauge("jupyter_gq_service_running_requests", "Authorised requests under way.", counts.requests)
    yield _gauge("jupyter_gq_service_opened_streams", "Open event streams.", counts.streams)
    yield _counter(
        "jupyter_gq_service_evicted_connections_total",
        "Connections without an authorised request that were closed to make room.",
        counts.evicted,
    )
    yield _counter(
        "jupyter_gq_service_stalled_connections_total",
        "Connections that were closed because the client did not read.",
        counts.stalled,
    )
    yield _counter(
        "jupyter_gq_service_refused_requests_total",
        "Requests that were refused with 429, because their user or queue has reached a limit.",
        counts.refused,
    )
    yield _counter(
        "jupyter_gq_service_paused_accepts_total",
        "How often the service stopped accepting connections for a while.",
        counts.pauses,
    )


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return Metric(name=name, help=help_text, samples=[({}, float(value))])


def _counter(name: str, help_text: str, value: int) -> Metric:
    return Metric(name=name, help=help_text, kind="counter", samples=[({}, float(value))])


def _lines(metric: Metric) -> Iterable[str]:
    """Yield the lines of a metric in the text format of Prometheus: help, type, and one line for each value."""
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for labels, value in metric.samples:
        named = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        yield f"{metric.name}{'{' + named + '}' if named else ''} {value:g}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
