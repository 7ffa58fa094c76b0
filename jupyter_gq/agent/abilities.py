"""The abilities of a node for shares of GPUs, found now and then and told with each report.

Rules
-----
- Read only: each finding is read from the driver, from /proc and from /sys, and nothing is changed.
- Now and then: the slow findings are repeated after ten minutes, or once the driver's state changes.
- Figures of the moment are left out, so that equal nodes tell equal sentences.

See docs/decisions/0170-ask-agents-what-their-nodes-can-do.md.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from jupyter_gq.client.agents import AgentAbility
from jupyter_gq.devices.abilities import (
    Ability,
    AbilityState,
    LimitFindings,
    Machine,
    find_driver,
    find_memory_limits,
    judge_journal,
)
from jupyter_gq.devices.limits import is_simulated
from jupyter_gq.devices.probe import DeviceInfo, DeviceModes, DeviceProbe, ProbeState, ProbeStatus
from jupyter_gq.domain.plain_text import strip_controls

from .shares import OFF as SUSPENSION_OFF

#: Seconds after which the slow findings are repeated.
_FIND_EVERY = 600.0
#: Name of MPS's control daemon as the kernel keeps names: its first 15 bytes.
_MPS_DAEMON = "nvidia-cuda-mps"
#: Characters of a sentence in a report.
_MOST = 1000


class NodeAbilities:
    """The finder of the abilities of one node."""

    def __init__(
        self,
        probe: DeviceProbe,
        machine: Machine,
        *,
        runs_program: Callable[[str], bool],
        monotonic: Callable[[], float],
    ) -> None:
        """Create a finder that has found nothing yet.

        `runs_program` tells whether a program with this name runs on the node; `monotonic` returns seconds.
        """
        self._probe, self._machine = probe, machine
        self._runs_program, self._monotonic = runs_program, monotonic
        self._found: tuple[Ability, ...] = ()
        self._found_at = 0.0
        #: State of the driver with which the slow findings were made; None = not made yet.
        self._found_with: ProbeStatus | None = None

    def find(
        self, status: ProbeStatus, devices: Sequence[DeviceInfo], missing: Mapping[str, str]
    ) -> list[AgentAbility]:
        """Return the abilities of the node, whose driver and devices are as given.

        `missing` has a sentence for each of `signal`, `kubelet`, `shares`, `suspend` and `journal` that the node lacks.
        """
        now = self._monotonic()
        if self._found_with != status or now - self._found_at > _FIND_EVERY:
            self._found = tuple(self._find_slowly(status, devices))
            self._found_with, self._found_at = status, now
        judged = _find_judged(missing, simulated=bool(devices) and all(is_simulated(each.uuid) for each in devices))
        return [_to_message(each) for each in (*self._found, *judged)]

    def _find_slowly(self, status: ProbeStatus, devices: Sequence[DeviceInfo]) -> Iterator[Ability]:
        """Yield the abilities for which the driver, /proc or /sys are read."""
        yield Ability(
            name="devices",
            state=AbilityState.WORKS if status.state is ProbeState.OK else AbilityState.MISSING,
            found=status.detail,
            advice="" if status.state is ProbeState.OK else status.detail,
        )
        yield find_driver(self._machine)
        modes = [self._probe.modes(device.uuid) for device in devices]
        yield _find_partitions(modes)
        yield self._find_mps()
        yield _find_persistence(modes)
        yield find_memory_limits(self._machine, LimitFindings())

    def _find_mps(self) -> Ability:
        if not self._runs_program(_MPS_DAEMON):
            return Ability(name="MPS", state=AbilityState.OFF, found="No daemon of MPS runs.")
        return Ability(
            name="MPS",
            state=AbilityState.UNVERIFIED,
            found="A daemon of MPS runs.",
            advice="Shares do not need the daemon of MPS, and it must not serve their programs.",
        )


def _find_judged(missing: Mapping[str, str], *, simulated: bool) -> Iterator[Ability]:
    """Yield the abilities that the observation of the node has judged already."""
    problem = missing.get("kubelet") or missing.get("shares")
    yield _judge("devices of pods", problem, "The kubelet tells which pod has which device.")
    yield _judge(
        "end programs",
        missing.get("signal"),
        "The agent can end the largest program of a share above its memory limit.",
        works=AbilityState.WORKS if simulated else AbilityState.UNVERIFIED,
    )
    yield _judge_suspension(missing.get("suspend"), simulated=simulated)
    yield from judge_journal(missing.get("journal", ""))


def _judge_suspension(problem: str | None, *, simulated: bool) -> Ability:
    name = "suspend"
    if problem == SUSPENSION_OFF:  # as it is installed, which needs no advice
        return Ability(name=name, state=AbilityState.OFF, found=problem)
    found = "The agent can suspend the GPU state of the share of a notebook."
    return _judge(name, problem, found, works=AbilityState.WORKS if simulated else AbilityState.UNVERIFIED)


def _find_partitions(modes: Sequence[DeviceModes]) -> Ability:
    name = "MIG"
    if any(each.partitioned for each in modes):
        return Ability(
            name=name,
            state=AbilityState.UNVERIFIED,
            found="GPUs are partitioned.",
            advice="Nobody can tell which slices of a partitioned GPU a container sees; share whole GPUs instead.",
        )
    if not modes or all(each.partitioned is None for each in modes):
        return Ability(name=name, state=AbilityState.MISSING, found="No GPU can be partitioned.")
    return Ability(name=name, state=AbilityState.OFF, found="No GPU is partitioned.")


def _find_persistence(modes: Sequence[DeviceModes]) -> Ability:
    name = "persistence"
    if not modes or any(each.persistent is None for each in modes):
        return Ability(name=name, state=AbilityState.UNKNOWN, found="The driver does not tell its persistence mode.")
    if all(each.persistent for each in modes):
        return Ability(name=name, state=AbilityState.WORKS, found="The driver stays loaded.")
    return Ability(
        name=name,
        state=AbilityState.OFF,
        found="The persistence mode of a GPU is off.",
        advice="Run nvidia-persistenced on the node, so that the driver stays loaded while no program uses a GPU.",
    )


def _judge(name: str, problem: str | None, found: str, *, works: AbilityState = AbilityState.WORKS) -> Ability:
    """Return an ability that is missing because of `problem`, a sentence that also says what to do; None = it works."""
    if problem:
        return Ability(name=name, state=AbilityState.MISSING, found=problem, advice=problem)
    return Ability(name=name, state=works, found=found)


def _to_message(ability: Ability) -> AgentAbility:
    return AgentAbility(
        name=ability.name,
        state=ability.state.value,
        found=_bound(ability.found),
        advice=_bound(ability.advice),
    )


def _bound(sentence: str) -> str:
    """Return a sentence as a report may carry it: on one line, and not longer than that."""
    clean = strip_controls(sentence)
    return clean if len(clean) <= _MOST else clean[: _MOST - 1] + "…"
