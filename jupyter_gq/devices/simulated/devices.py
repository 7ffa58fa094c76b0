"""Simulated devices: for the demo, for tests, and for trying a policy before the hardware arrives.

The use of a simulated device by a process is the CPU use of the process (100 = one core or more) and the memory that
the process reports (see `memory`). A process that is suspended has none. A process that was started with
other devices, as another task of the same job, does not use the device.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil
from traitlets import Bunch, Enum, Integer, TraitError, Unicode, validate
from traitlets.config import Configurable

from jupyter_gq.devices.limits import SIMULATED_PREFIX
from jupyter_gq.devices.linux.processes import read_process
from jupyter_gq.devices.probe import DeviceInfo, DeviceModes, ProbeState, ProbeStatus, Usage
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.plain_text import quoted

from .memory import (
    SimulatedFault,
    SimulatedRecord,
    has_fault,
    held_devices,
    memory_on_device,
    read_record,
    reported_memory,
)

#: Memory of known models, as nvidia-smi shows it.
MODELS: dict[str, MiB] = {
    "A10-24GB": MiB(23028),
    "A100-40GB": MiB(40960),
    "A100-80GB": MiB(81920),
    "B200-192GB": MiB(183359),
    "H100-80GB": MiB(81559),
    "H200-141GB": MiB(143771),
    "L4-24GB": MiB(23034),
    "L40S-48GB": MiB(46068),
    "RTX3090-24GB": MiB(24576),
    "RTX4090-24GB": MiB(24564),
    "T4-16GB": MiB(15360),
    "V100-16GB": MiB(16384),
    "V100-32GB": MiB(32768),
}
#: Largest number of devices in a setting; a larger number is taken for a typing mistake.
MAX_DEVICES = 1024
_ENTRY = re.compile(r"(?:(?P<count>\d+)\s*[x×]\s*)?(?P<model>\S+)")  # noqa: RUF001 - people type the sign too
_MEMORY = re.compile(r".+-(?P<gb>\d{1,4})GB", re.IGNORECASE)
#: Shortest time in seconds over which CPU use is measured; over less time the figure is noise.
_MIN_WINDOW = 0.5


def parse_devices(text: str, node: str = "") -> tuple[DeviceInfo, ...]:
    """Return the devices that a text such as "2x A100-40GB, T4-16GB" names; an empty text names none.

    Raises `ValueError` with a phrase for an entry of another form, an unknown model, or too many devices. The ids are
    unique on this machine; with the name of a node they are unique in its cluster.
    """
    models: list[str] = []
    for entry in (part.strip() for part in text.split(",")):
        if not entry:
            continue
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError(f"{entry!r} is not a device: write a number and a model, such as 2x A100-40GB")
        models += [match["model"]] * int(match["count"] or 1)
        if len(models) > MAX_DEVICES:
            raise ValueError(f"{text!r} are more than {MAX_DEVICES} devices")
    prefix = f"{SIMULATED_PREFIX}{node}-" if node else SIMULATED_PREFIX
    return tuple(
        DeviceInfo(uuid=f"{prefix}{index}", index=index, model=model, memory=_memory_of_model(model))
        for index, model in enumerate(models)
    )


class SimulatedProbe:
    """The probe of simulated devices; see `devices.probe.DeviceProbe`."""

    def __init__(self, devices: Sequence[DeviceInfo], *, why: str, now: Callable[[], float]) -> None:
        """Create a probe of these devices; `why` is a sentence that says why, and `now` returns the time in seconds."""
        self._devices = tuple(devices)
        self._why = why
        self._now = now
        self._watched: dict[int, _WatchedProcess] = {}

    def status(self) -> ProbeStatus:
        """Return OK with the simulated models and the reason, or NO_DEVICES if the setting names no device."""
        if self._is_lost():
            return ProbeStatus(state=ProbeState.LOST, detail="Simulated: a GPU fell off the bus, as a fault says.")
        models = Counter(device.model for device in self._devices)
        what = ", ".join(f"{count}x {model}" for model, count in models.items()) or "no devices"
        return ProbeStatus(
            state=ProbeState.OK if self._devices else ProbeState.NO_DEVICES, detail=f"Simulated ({what}): {self._why}"
        )

    def devices(self) -> tuple[DeviceInfo, ...]:
        """Return the devices in order of their index; an empty tuple if a fault says that they are lost."""
        return () if self._is_lost() else self._devices

    def usage(self, device: str, pids: Sequence[int]) -> tuple[Usage, ...] | None:
        """Return the simulated use of each of these processes that is alive; None if the device is unknown.

        A process that does not hold the device uses nothing of it. A process with several devices has the same use on
        each of them.
        """
        if self._find(device) is None:
            return None
        # The loop and the threads that suspend shares ask at the same time.
        self._watched = {pid: watched for pid, watched in list(self._watched.items()) if watched.process.is_running()}
        found = (self._usage(pid, device) for pid in pids)
        return tuple(usage for usage in found if usage is not None)

    def free_memory(self, device: str) -> MiB | None:
        """Return the memory of the device less that of the processes that hold it; None if the device is unknown."""
        found = self._find(device)
        return None if found is None else MiB(max(0, found.memory - memory_on_device(device)))

    def modes(self, device: str) -> DeviceModes:
        """Return that a simulated device is whole and always ready."""
        return DeviceModes(partitioned=False, persistent=True)

    def suspension_obstacle(self, device: str, pids: Sequence[int]) -> str | None:
        """Return None: nothing that the probe of simulated devices sees is in the way of a suspension."""
        return None

    def _find(self, device: str) -> DeviceInfo | None:
        """Return the device with this id; None if there is none, or if a fault says that the devices are lost."""
        return next((known for known in self.devices() if known.uuid == device), None)

    def _is_lost(self) -> bool:
        return bool(self._devices) and has_fault(SimulatedFault.NVML_LOST)

    def _usage(self, pid: int, device: str) -> Usage | None:
        """Return the use of a device by a process; None if the process has ended or may not be read."""
        try:
            watched = self._watched.get(pid)
            if watched is None:
                watched = self._watched[pid] = _WatchedProcess(psutil.Process(pid))
            found = read_process(pid)
            record = SimulatedRecord() if found is None else read_record(found.id)
            if found is None or not _holds(pid, record, device):
                return Usage(pid=pid, memory=MiB(0), utilisation=0)
            memory = reported_memory(watched.process) if record.holds_memory else MiB(0)
            return Usage(pid=pid, memory=memory, utilisation=watched.cpu_percent(self._now()))
        except psutil.Error:
            self._watched.pop(pid, None)
            return None


class _WatchedProcess:
    """A process and its CPU use since the last measurement."""

    def __init__(self, process: psutil.Process) -> None:
        self.process = process
        self._measured_at: float | None = None
        self._percent: int | None = None

    def cpu_percent(self, now: float) -> int | None:
        """Return the CPU use since the last measurement in per cent of one core, at most 100; None at the first call.

        Calls within half a second after a measurement return its result again.
        """
        if self._measured_at is not None and now - self._measured_at < _MIN_WINDOW:
            return self._percent
        percent = min(100, round(self.process.cpu_percent()))
        self._percent = None if self._measured_at is None else percent
        self._measured_at = now
        return self._percent


class _DeviceList(Unicode[str, object]):
    """A trait for a list of devices as text, which `SimulatedDevices` checks further."""

    def validate(self, obj: object, value: object) -> str:
        """Return the text; raise `TraitError` for any other value."""
        if isinstance(value, str):
            return value
        raise TraitError(
            f"c.SimulatedDevices.devices = {quoted(value)}: this is no text. Write numbers and models in quotes, such "
            'as "2x A100-40GB".'
        )


class SimulatedDevices(Configurable):
    """The settings of simulated devices: which devices, and when they are used."""

    devices = _DeviceList(
        "2x A100-40GB",
        help="Simulated devices: numbers and models, separated by commas, such as `2x A100-40GB, T4-16GB`. "
        "Any model that ends in `-<N>GB` is possible.",
    ).tag(config=True)
    mode = Enum(
        ["auto", "always", "never"],
        "auto",
        help="When devices are simulated: `auto` = if this machine has fewer NVIDIA GPUs than `needed` (a broken "
        "driver is reported instead); `always`; `never`.",
    ).tag(config=True)
    needed = Integer(
        1,
        min=1,
        help="Number of NVIDIA GPUs below which the mode `auto` simulates devices. More than 1 is for demonstrations "
        "only: if one of the GPUs is lost, the service simulates all of them after its next start.",
    ).tag(config=True)

    #: Name of the node in the ids of its devices, if several machines of a cluster simulate devices.
    node = Unicode("")

    @validate("devices")
    def _check_devices(self, proposal: Bunch) -> str:
        try:
            parse_devices(proposal["value"])
        except ValueError as error:
            raise TraitError(f"c.SimulatedDevices.devices = {quoted(proposal['value'])}: {error}.") from error
        return str(proposal["value"])

    def probe(self, *, why: str, now: Callable[[], float]) -> SimulatedProbe:
        """Return the probe of the configured devices; for the arguments see `SimulatedProbe`."""
        return SimulatedProbe(parse_devices(self.devices, self.node), why=why, now=now)


def _memory_of_model(model: str) -> MiB:
    """Return the memory of a known model, or of one whose name ends in `-<N>GB`; raise `ValueError` for any other."""
    known = {name.upper(): memory for name, memory in MODELS.items()}.get(model.upper())
    if known is not None:
        return known
    match = _MEMORY.fullmatch(model)
    if match is None or int(match["gb"]) == 0:
        raise ValueError(
            f"the memory of {model!r} is not known: write it as {model}-16GB, or use one of {', '.join(MODELS)}"
        )
    return MiB(int(match["gb"]) * 1024)


def _holds(pid: int, record: SimulatedRecord, device: str) -> bool:
    """Return whether a process was started with this device, or was moved to it by a resume.

    A process whose environment names no devices, or may not be read, is taken to hold any device that it has not left.
    Raises `psutil.Error` if the process has ended.
    """
    held: frozenset[str] = frozenset()
    with suppress(psutil.AccessDenied):
        held = held_devices(pid, record)
    return device in held if held else device not in record.moves
