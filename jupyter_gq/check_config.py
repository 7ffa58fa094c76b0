"""`jupyter-gq check-config`: whether the Hub's configuration file is good, and what it would change."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from traitlets.config import Config, Configurable
from traitlets.utils.importstring import import_item

from jupyter_gq.backends.local import LocalBackend
from jupyter_gq.backends.local.machine import measure_memory
from jupyter_gq.backends.servers import ServersBackend
from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.plain_output import print_plain
from jupyter_gq.client.state import LiveState, read_state
from jupyter_gq.commands.connecting.connection import add_wait_argument, ask_service
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.controller.settings.config import Settings, build_settings
from jupyter_gq.controller.settings.config_file import ConfigFileError
from jupyter_gq.controller.settings.last_good import LastGood
from jupyter_gq.controller.settings.lost_quotas import find_lost_quotas, find_work_over_quota
from jupyter_gq.controller.settings.next_evictions import find_next_evictions
from jupyter_gq.controller.settings.policy_file import PolicyFile
from jupyter_gq.controller.settings.process_end import forbid_process_end
from jupyter_gq.controller.settings.queue_access import find_access_changes
from jupyter_gq.controller.settings.told_errors import describe_error
from jupyter_gq.controller.settings.traits import SettingsError
from jupyter_gq.controller.settings.trial import make_trial
from jupyter_gq.devices.choose import choose_probe
from jupyter_gq.devices.limits import is_simulated
from jupyter_gq.devices.nvidia.nvml import NvmlProbe
from jupyter_gq.devices.simulated.devices import SimulatedDevices, SimulatedProbe
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.planning.files import load_state
from jupyter_gq.service import SchedulerService
from jupyter_gq.start_sections import find_start_sections


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq check-config`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the Hub's configuration file, as it shall be")
    parser.add_argument(
        "--state", type=Path, metavar="SNAPSHOT.json", help="compare with this state, written by `jupyter-gq snapshot`"
    )
    parser.add_argument("--url", help="compare with the running service at this address")
    add_wait_argument(parser)
    parser.epilog = (
        "Without --state and --url the file is checked by itself. With --url, the token of an administrator is read as "
        "by `jupyter-gq jobs`. The exit code is 1 if the file cannot be used."
    )


def run(arguments: argparse.Namespace) -> int:
    """Print what is wrong with the file, what is probably not meant, and what the file would change.

    Returns the exit code: 0, or 1 if the file cannot be used.
    """
    state = _live_state(arguments)
    stored = None if state is None else LastGood(sections=state.settings, files={})
    nodes = None if state is None else state.offered_nodes
    try:
        sections = find_start_sections(SchedulerService, *_backends())
        trial = make_trial(sections.names, measure_memory())
        file = PolicyFile(arguments.file, lambda: nodes, sections, stored, trial=trial)
        problem: object = file.error or _describe_missing_spawner(file.config or Config())
    except ConfigFileError as error:
        problem = error
    if problem:
        print_plain(f"{arguments.file} cannot be used. {problem}")
        return 1
    print(f"{arguments.file} can be used.")
    here = () if state is not None else _compare_with_this_machine(file.config or Config())
    _print("Probably not meant", [*file.warnings, *_find_doubts(file), *here])
    if state is None or stored is None:
        print("Nothing is compared: name a running service with --url, or a snapshot with --state.")
        return 0
    if not state.settings:
        print("Nothing is compared: the state does not say which settings are in force.")
        return 0
    _compare(build_settings(stored.to_config(), state.offered_nodes), file.current, state)
    return 0


def _find_doubts(file: PolicyFile) -> Iterator[str]:
    """Yield a sentence for each thing about a file that can be used, and that is probably not meant."""
    if file.last_good is not None and not file.last_good.sections:
        yield "the file sets nothing of jupyter-gq: all settings have their defaults, and there is no training queue"
    yield from file.missing
    service = SchedulerService(config=file.config)
    yield from service.describe_unwritable_folders()
    yield from service.describe_log_faults()
    yield from _describe_unknown_traits(file.config or Config())
    yield from _try_places(file.config or Config())


def _compare_with_this_machine(config: Config) -> Iterator[str]:
    """Yield a sentence if a service on this machine would not start with the quotas and pools, because of its GPUs.

    The service may run elsewhere. So nothing is said if there are no GPUs here, and none are simulated on purpose.
    See docs/decisions/0458-doubt-quotas-that-this-machine-cannot-keep.md.
    """
    if SchedulerService(config=config).backend != "local":
        return
    clock = SystemClock()
    probe = choose_probe(NvmlProbe(now=clock.now), SimulatedDevices(config=config), clock.now)
    machine = LocalBackend(config=config).describe_machine(probe)
    if not machine.devices or (isinstance(probe, SimulatedProbe) and "SimulatedDevices" not in config):
        return
    try:
        build_settings(config, [machine], find_start_sections(SchedulerService, *_backends()).names)
    except SettingsError as error:
        yield f"a service on this machine, with its {_count(machine.devices)}, does not start with this: {error}"


def _count(devices: Sequence[Device]) -> str:
    """Return the number of devices in words."""
    simulated = "simulated " if any(is_simulated(device.id) for device in devices) else ""
    return f"{len(devices)} {simulated}GPU{'' if len(devices) == 1 else 's'}"


def _try_places(config: Config) -> Iterator[str]:
    """Yield a sentence if the service on a cluster could not keep large files at their URL, as far as is known here.

    A store without an answer takes some seconds.
    """
    try:
        from jupyter_gq.backends.kubernetes import KubernetesBackend
    except ModuleNotFoundError:
        return
    if SchedulerService(config=config).backend != "kubernetes":
        return
    if failure := KubernetesBackend(config=config).try_bundle_url():
        yield f"{failure} This was tried from here; the service may have other packages, credentials and ways"


def _describe_unknown_traits(config: Config) -> Iterator[str]:
    """Yield a sentence for each trait that a file sets of a spawner of ours, and that the spawner does not have.

    Says nothing of spawners whose packages are not here.
    """
    spawners = [each for each in entry_points(group="jupyterhub.spawners") if each.module.startswith("jupyter_gq.")]
    for spawner in spawners:
        section = spawner.attr
        if section not in config:
            continue
        try:
            traits = spawner.load().class_trait_names(config=True)
        except ImportError:
            continue
        except Exception as error:  # noqa: BLE001 - a package that the spawner imports may raise anything
            yield f"c.{section} is not checked, because its spawner cannot be imported ({describe_error(error)})"
            continue
        for trait in sorted(set(config[section]) - set(traits)):
            close = get_close_matches(trait, traits, n=1)
            guess = f" Did you mean c.{section}.{close[0]}?" if close else ""
            yield f"c.{section}.{trait}: there is no such trait, so that it has no effect.{guess}"


def _live_state(arguments: argparse.Namespace) -> LiveState | None:
    """Return the state in the file of --state, or that of the service at --url; None if neither is given."""
    if arguments.state is not None:
        return load_state(arguments.state).state
    if arguments.url:
        return read_state(ask_service(arguments, ServiceClient.state)).state
    return None


def _backends() -> tuple[type[Configurable], ...]:
    """Return the classes outside the policy that read settings; without the extra "kubernetes", not its backend."""
    local = (LocalBackend, ServersBackend, SimulatedDevices)
    try:
        from jupyter_gq.backends.kubernetes import KubernetesBackend
    except ModuleNotFoundError:
        return local
    return (*local, KubernetesBackend)


def _describe_missing_spawner(config: Config) -> str:
    """Return a sentence if the Hub would not find its spawner; "" if it would, or if there is no Hub here to tell."""
    name = config.JupyterHub.get("spawner_class")
    if not isinstance(name, str) or find_spec("jupyterhub") is None:
        return ""
    entry = {each.name.lower(): each for each in entry_points(group="jupyterhub.spawners")}.get(name.lower())
    module = name.rpartition(".")[0] or name if entry is None else entry.module
    fix = "Write the name as in the documentation, or leave the line out: `configure(c)` sets the spawner."
    try:
        with forbid_process_end():
            found = import_item(name) if entry is None else entry.load()
            spawner = import_item("jupyterhub.spawner.Spawner")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the code of a module may raise anything
        if entry is not None and isinstance(error, ModuleNotFoundError) and not _is_within(module, error.name):
            return ""  # a package that the Hub's machine may have
        why = describe_error(error)
        is_missing = isinstance(error, ImportError | ValueError)  # a ValueError: "" and "." name no module
        if entry is not None or not is_missing:
            fix = f"Mend its module {quoted(module)}, or name another class."
    else:
        is_spawner = isinstance(found, type) and issubclass(found, spawner)
        why = "" if is_spawner else f"{quoted(found)} is no class of spawners"
    return f"c.JupyterHub.spawner_class = {quoted(name)}: the Hub cannot import it ({why}). {fix}" if why else ""


def _is_within(module: str, name: str | None) -> bool:
    """Return whether a module is the module `name` or lies in it."""
    return f"{module}.".startswith(f"{name}.")


def _compare(before: Settings, after: Settings, state: LiveState) -> None:
    """Print what the change does to quotas, to the users of queues, and to running work."""
    groups = {user: frozenset(names) for user, names in state.groups.items()}
    lost = list(find_lost_quotas(before, after, groups))
    over = list(find_work_over_quota(before, after, groups, list(state.snapshot.workloads)))
    if lost:
        _print("Lower than now", lost)
    else:
        print("No quota is lower than now.")
    _print("Other users or groups may use", find_access_changes(before, after))
    if over:
        _print("Running work that becomes over quota, and may be paused or stopped for others", over)
    else:
        print("No running work becomes over quota.")
    _print("Running work that is paused or stopped as soon as the file is in force", find_next_evictions(after, state))


def _print(title: str, lines: Iterable[str]) -> None:
    """Print the title and below it the indented lines; nothing if there are no lines."""
    listed = list(lines)
    if listed:
        print_plain("\n".join([f"{title}:", *(f"  {line}" for line in listed)]))
