"""`jupyter-gq check-devices`: try on the cluster how a container can see its own device and no other."""

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from traitlets import TraitError

from jupyter_gq.backends.kubernetes import KubernetesBackend
from jupyter_gq.backends.kubernetes.shares.device_check import DeviceCheck, Report, describe_finding
from jupyter_gq.commands.refusal import CommandRefused
from jupyter_gq.controller.settings.config_file import ConfigFileError, ExecutedFiles, load_config
from jupyter_gq.controller.settings.policy_file import PolicyFile
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.json_types import JsonMapping
from jupyter_gq.domain.pod_pool import PodPool, Provider, Visibility

_FILE = Path("/etc/jupyter-gq/jupyterhub_config.py")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq check-devices`."""
    parser.add_argument("pool", nargs="?", help="name of the pool (default: the only one)")
    parser.add_argument("--node", help="name of the node (default: a node of the pool with most devices)")
    parser.add_argument("--image", help="an image with this package (default: c.KubernetesBackend.runner_image)")
    parser.add_argument(
        "--config",
        type=Path,
        default=_FILE,
        metavar="FILE",
        help=f"the Hub's configuration file (default: {_FILE}, as in the service's pod)",
    )
    parser.epilog = (
        "Creates a few small pods one after the other; each runs for seconds, and one needs a free device. Run the "
        "command in the service's pod. The exit code is 1 if the visibility that the pool has set does not work."
    )


def run(arguments: argparse.Namespace) -> int:
    """Try on a node of the pool each way in which a container can see its device, and print which ways work.

    Creates small pods on the cluster, one after the other. Returns the exit code: 0 if the `visibility` that the pool
    sets works, else 1. Raises `CommandRefused` if nothing can be tried.
    """
    path: Path = arguments.config
    try:
        pools = PolicyFile(path, tuple).current.pod_pools
    except ConfigFileError as error:
        raise CommandRefused(str(error)) from None
    pool = _pool(pools, arguments.pool)
    config = load_config(path.absolute(), ExecutedFiles())
    try:
        backend = KubernetesBackend(config=config)
    except TraitError as error:
        raise CommandRefused(str(error)) from None
    if arguments.image:
        backend.runner_image = arguments.image
    if not backend.runner_image:
        raise CommandRefused(
            "No image with this package is known. Name one with --image, or set c.KubernetesBackend.runner_image."
        )
    try:
        report = asyncio.run(_check(backend, pool, arguments.node))
    except BackendError as error:
        raise CommandRefused(str(error)) from None
    print("\n".join(describe_report(report, pool, config.Pools.pools)))
    return 0 if report.works(pool.visibility) else 1


async def _check(backend: KubernetesBackend, pool: PodPool, node: str | None) -> Report:
    """Try each way on that node of the pool, or on the first suitable one; return the findings.

    Raises `CommandRefused` if the node is not suitable, or if no node is.
    """
    cluster = backend.open_cluster()
    try:
        check = DeviceCheck(cluster, backend.options())
        nodes = [view.name for view in await check.nodes(pool)]
        if node is None and not nodes:
            raise CommandRefused(f"No node of the pool {pool.name!r} is ready, open and offers {pool.resource}.")
        if node is not None and node not in nodes:
            there = ", ".join(nodes) or "none"
            raise CommandRefused(
                f"{node} is no ready node of the pool {pool.name!r} that offers {pool.resource}. It has: {there}."
            )
        return await check.run(node or nodes[0], pool)
    finally:
        cluster.close()


def describe_report(report: Report, pool: PodPool, pools: Mapping[str, JsonMapping]) -> list[str]:
    """Return the report as lines for the terminal: the finding of each trial, and advice on what to set.

    `pools` are all pools as they are configured.
    """
    given = report.whole.devices or ()
    whole = f"sees {given[0]}" if len(given) == 1 else describe_finding(report.whole, ("one",))
    lines = [f"Node {report.node}, pool {pool.name}:", _line("a whole device", whole)]
    if report.void is None:
        return [*lines, "Without one device from the device plugin no way can be tried. Mend that first."]
    lines.append(_line("no device", describe_finding(report.void, ())))
    lines += [_line(way.value, describe_finding(finding, given)) for way, finding in report.ways]
    return [*lines, *_advice(report, pool, pools)]


def _advice(report: Report, pool: PodPool, pools: Mapping[str, JsonMapping]) -> list[str]:
    """Return lines that say whether the configured visibility works, and if not, what to set instead."""
    working = [way.value for way in Visibility if report.works(way)]
    if pool.visibility.value in working:
        return [f"The pool's way, {pool.visibility.value}, works."]
    if working:
        return [
            f"The pool's way, {pool.visibility.value}, does not work here; {working[0]} does. Put this into the values "
            "of the chart (all pools, for these replace those of before):",
            *as_values({**pools, pool.name: {**pools[pool.name], "visibility": working[0]}}),
        ]
    if report.void is not None and report.void.devices:
        return ["A container that is given no device sees some: no way keeps shares apart on this node."]
    return ["No way works here: only whole devices can be used on this node. Is the NVIDIA runtime class installed?"]


def as_values(pools: Mapping[str, JsonMapping]) -> list[str]:
    """Return the pools as lines of YAML for the values of the chart."""
    written = {name: {_camel(key): value for key, value in entry.items()} for name, entry in pools.items()}
    return ["pools:", *(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in written.items())]


def _camel(key: str) -> str:
    """Return a name in snake case in camel case, such as `gpuModel` for `gpu_model`."""
    first, *rest = key.split("_")
    return first + "".join(map(str.capitalize, rest))


def _line(what: str, found: str) -> str:
    """Return one line of the report: the name of a trial, and what was found."""
    return f"  {what:<16}{found}"


def _pool(pools: Sequence[PodPool], name: str | None) -> PodPool:
    """Return the pool of that name, or without a name the only one; raise `CommandRefused` for any other name.

    `CommandRefused` is also raised for a pool whose provider shows devices to containers by itself.
    """
    known = {pool.name: pool for pool in pools}
    listed = ", ".join(known) or "none on Kubernetes"
    if name is None and len(known) != 1:
        raise CommandRefused(f"Which pool? There are: {listed}.")
    if name is not None and name not in known:
        raise CommandRefused(f"There is no pool {name!r}. There are: {listed}.")
    pool = known[name] if name is not None else next(iter(known.values()))
    if pool.provider is not Provider.RESERVATION:
        raise CommandRefused(
            f"In the pool {pool.name!r} the provider {pool.provider.value} shows devices to containers by itself."
        )
    return pool
