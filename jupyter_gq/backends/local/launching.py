"""The inputs of tasks: their environments, their working folder and the limits of their run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.backends.control_groups import RunLimits, add_process
from jupyter_gq.backends.gang import Rendezvous, gang_environment
from jupyter_gq.backends.mps import MpsDevices
from jupyter_gq.backends.protocol import Launch
from jupyter_gq.backends.run_size import SIZE_FILE
from jupyter_gq.client.environment.variables import add_share_variables
from jupyter_gq.devices.limits import share_environment
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.workload import TaskPlacement, Workload

from .accounts import UnixAccount
from .environment import base_environment
from .files import is_missing
from .folders import job_folder, run_folder
from .ledger import Run, TaskProcess
from .options import LocalOptions
from .ports import LOOPBACK
from .tasks import TaskInputs, TaskStarter, choose_working_folder, read_manifest


@dataclass(frozen=True, kw_only=True, slots=True)
class Preparation:
    """The inputs that all tasks of a run share."""

    launch: Launch
    account: UnixAccount
    #: Folder in which the tasks start.
    cwd: str
    environment: Mapping[str, str]


class TaskLauncher:
    """The starts of the tasks of runs, each with its own environment."""

    def __init__(
        self,
        *,
        root: Path,
        options: LocalOptions,
        service_url: str,
        devices: Callable[[], tuple[Device, ...]],
        mps: MpsDevices | None,
    ) -> None:
        """Create a launcher for the state folder `root`; `devices` returns the devices of this machine.

        `mps` shares some devices by MPS; None = there are none.
        """
        self._mps = mps
        self._root, self._options, self._service_url, self._devices = root, options, service_url, devices
        self._starter = TaskStarter(state_dir=root, command=options.command)

    def prepare(self, run: Run, launch: Launch, account: UnixAccount) -> Preparation:
        """Return the inputs that all tasks of the run share; raise `BackendError` for a missing or unusable bundle."""
        if is_missing(job_folder(self._root, run.job), account):
            raise BackendError(f"The files of {run.job} are gone, so it cannot run.")
        manifest = read_manifest(self._root, run.job, account)
        cwd = choose_working_folder(launch.detail.cwd or manifest.get("cwd"), account, job_folder(self._root, run.job))
        given = manifest.get("environment")
        base = base_environment(
            account, self._options.env_keep, given if isinstance(given, dict) else {}, launch.environment
        )
        base |= {"GQ_JOB_ID": run.job, "GQ_SERVICE_URL": self._service_url, "PYTHONUNBUFFERED": "1"}
        if run.elastic is not None:
            base["GQ_SIZE_FILE"] = str(run_folder(self._root, run.job, run.number) / SIZE_FILE)
        return Preparation(launch=launch, account=account, cwd=cwd, environment=base)

    def start(self, run: Run, number: int, place: TaskPlacement | None, prepared: Preparation) -> TaskProcess:
        """Start one task at its place, None = it has none, in the control group of its run; return its process.

        Raises `StorageFull` or `BackendError` with a sentence if that fails.
        """
        workload, elastic = prepared.launch.workload, run.elastic
        rendezvous = Rendezvous(
            tasks=len(run.tasks),
            address=LOOPBACK,
            port=run.port,
            least=None if elastic is None else elastic.least,
            name=f"{run.job}-{run.number}",
        )
        devices = workload.request.devices if place is None else len(place.devices)
        share = prepared.launch.environment if place is None else self._share_environment(workload, place)
        own = {**prepared.environment, **gang_environment(number, devices, rendezvous)}
        environment = add_share_variables(own, share)
        launch = prepared.launch
        inputs = TaskInputs(
            environment=environment,
            token=launch.token,
            last_seq=launch.last_seq,
            continue_from=launch.detail.continue_from,
        )
        process = self._starter.start(run, number, prepared.account, prepared.cwd, inputs)
        add_process(run.group, process.pid)  # at once: what it starts later is in the group too
        return process

    def _share_environment(self, workload: Workload, place: TaskPlacement) -> dict[str, str]:
        """Return the variables that tell a task at this place its own devices."""
        held = set(place.devices)
        devices = tuple(device for device in self._devices() if device.id in held)
        milli = workload.request.milli_per_device
        through_mps = {} if self._mps is None else self._mps.environment(devices, milli)
        return {**share_environment(devices, milli), **through_mps}


def choose_limits(workload: Workload, options: LocalOptions) -> RunLimits:
    """Return what a run may use: the sums of the requests of its tasks, without limit if a task names no amount."""
    requests = [workload.request_of(task.group) for task in workload.placement]
    requests = requests or [workload.request] * workload.tasks
    cpus, memory = [each.cpu_milli or 0 for each in requests], [each.memory or 0 for each in requests]
    return RunLimits(
        cpu_milli=sum(cpus) if all(cpus) else 0,
        memory_mib=sum(memory) if all(memory) else 0,
        processes=options.max_processes * len(requests),
    )


def choose_task_limits(workload: Workload, options: LocalOptions) -> RunLimits:
    """Return what one task of a run of equal tasks may use."""
    request = workload.request
    return RunLimits(cpu_milli=request.cpu_milli or 0, memory_mib=request.memory or 0, processes=options.max_processes)
