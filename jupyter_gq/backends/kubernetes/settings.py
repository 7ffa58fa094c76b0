"""Settings of the Kubernetes backend."""

import os
import secrets
import socket
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from traitlets import Bool, Dict, Float, Integer, List, Unicode
from traitlets.config import LoggingConfigurable

from jupyter_gq.backends.server_stopper import ServerStopper
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.pod_pool import PodPool

from .backend import KubernetesRuns
from .clocks import Clocks
from .leader.election import Times
from .leader.lease import Lease, Seat
from .objects.names import SERVICE, labels
from .options import KubernetesOptions

if TYPE_CHECKING:
    from .api.cluster import Cluster

#: Calls at one time beside the creations: deletions, and tokens to be checked.
_OTHER_CALLS = 8


class KubernetesBackend(LoggingConfigurable):
    """Notebooks and training workloads as pods: the settings, and what is built from them.

    (The backend itself cannot be a Configurable: that class has an `observe` of its own.)
    """

    installation = Unicode(
        "jupyter-gq",
        help="Name of this installation: a label on everything that it makes, so that two in one cluster do not meet. "
        "The chart sets it to the name of the release. Default: jupyter-gq.",
    ).tag(config=True)
    hub_namespace = Unicode(
        help="Namespace of the hub and of the notebooks' pods. Default: the namespace of the service's own pod."
    ).tag(config=True)
    nodes_namespace = Unicode(
        help="Namespace of the reservation pods and the agents. Default: the installation followed by -gq-nodes."
    ).tag(config=True)
    training_namespace = Unicode(
        help="Namespace of the pods of jobs. Default: the installation followed by -gq-train."
    ).tag(config=True)
    service_url = Unicode(
        help="Address at which pods of jobs reach this service, such as "
        "http://jupyter-gq.hub.svc:8089/services/jupyter-gq/. Default: the one that the service listens on."
    ).tag(config=True)
    runner_image = Unicode(
        help='Image of jobs whose notebook\'s image is not known. Default: "", such jobs fail with a sentence.'
    ).tag(config=True)
    reservation_image = Unicode(
        "registry.k8s.io/pause:3.10", help="Image of the pods that hold a device for shares; it only has to wait."
    ).tag(config=True)
    reservation_priority_class = Unicode(
        help='Priority class of the pods that hold a device, so that they are not preempted. Default: "", none.'
    ).tag(config=True)
    training_priority_class = Unicode(help='Priority class of the pods of jobs. Default: "", none.').tag(config=True)
    placeholder_priority_class = Unicode(
        help="Priority class of the pods that ask a cluster autoscaler for a new node: the lowest that it reckons "
        'with, so that any other pod may take their place. Default: "", none.'
    ).tag(config=True)
    image_pull_secrets = List(
        Unicode(), help="Names of pull secrets; they must exist in the training and the nodes namespace. Default: none."
    ).tag(config=True)
    unschedulable_after = Float(
        20.0,
        help="Seconds that the cluster may fail to place a pod; then the pod goes, its node pauses and the work is "
        "planned again. Default: 20.",
    ).tag(config=True)
    reservation_timeout = Float(
        30.0, help="Seconds that a device may take to be held for shares; then its node pauses. Default: 30."
    ).tag(config=True)
    linger = Float(
        60.0,
        help="Seconds that a device is held on after its last share, so that the next one need not wait. Default: 60.",
    ).tag(config=True)
    start_timeout = Float(
        1200.0,
        help="Seconds that the container of a job's task may take to start once its pod has a node; then the pod goes, "
        "the node pauses and the job is planned again. An image that is pulled for the first time has to fit in. "
        "Default: 1200.",
    ).tag(config=True)
    gang_start_timeout = Float(
        300.0,
        help="Seconds in which all tasks of a job of several must run: the first ones hold their GPUs for the last. "
        "Otherwise all of them go, nodes where one has not started pause, and the job is planned again. Default: 300.",
    ).tag(config=True)
    gang_grace = Float(
        10.0, help="Seconds that the other tasks of a job have to end after one of them failed. Default: 10."
    ).tag(config=True)
    attach_timeout = Float(
        180.0, help="Seconds that the hub has to make a notebook's pod after its share was given. Default: 180."
    ).tag(config=True)
    pull_timeout = Float(
        60.0, help="Seconds that an image may fail to be pulled before the job fails with the reason. Default: 60."
    ).tag(config=True)
    agent_silent_after = Float(
        60.0, help="Seconds without a report of a node's agent after which no new share goes there. Default: 60."
    ).tag(config=True)
    node_lost_after = Float(
        60.0, help="Seconds that a node may be not ready before what runs there counts as lost. Default: 60."
    ).tag(config=True)
    leave_cordoned = Bool(
        True,
        help="A node that is cordoned is about to be drained: jobs that can be paused leave it at once, with their "
        "grace, and wait for another place. False: they stay until something ends them. Default: True.",
    ).tag(config=True)
    as_jobs = Bool(
        False,
        help="Make each task as a Job of batch/v1 instead of a bare pod, for sites that forbid those. Default: False.",
    ).tag(config=True)
    checkpoint_claim = Unicode(
        help="Name of a volume claim in the training namespace in which jobs save their state, a folder an owner and "
        'job. Default: "", state is lost with the pod.'
    ).tag(config=True)
    checkpoint_url = Unicode(
        help="Address in the words of fsspec under which jobs save their state, told to them as GQ_CHECKPOINT_URL. "
        'Default: "", none.'
    ).tag(config=True)
    pod_overrides = Dict(
        help="Part of a pod, laid on the pod of each task: mappings by key, named lists by name. Names, labels of ours "
        "and the node are not changed by it. Default: {}."
    ).tag(config=True)
    lease_duration = Float(
        15.0,
        help="Seconds after which another service takes the place of one that is silent; it stops after two thirds of "
        "them, and gives its place up when it has not reached its database for four times as long. Default: 15.",
    ).tag(config=True)
    kubeconfig = Unicode(
        help='Path of a kubeconfig. Default: "", the service account of the pod that the service runs in.'
    ).tag(config=True)
    request_timeout = Float(10.0, help="Seconds that a call to the API server may take. Default: 10.").tag(config=True)
    creations = Integer(100, min=1, help="The most pods that are being made at one time. Default: 100.").tag(
        config=True
    )
    starts_ahead = Integer(
        200,
        min=1,
        help="When so many pods are wanted that are not made yet, no more jobs are started: they stay in their queues, "
        "where others may still pass them. Where the API server makes 200 pods a second, a job that is started has "
        "its pods about a second later. Default: 200.",
    ).tag(config=True)
    observe_all_pods = Bool(
        False,
        help="Read all pods of the cluster, to know the processors and memory that others use. Needs that right. "
        "Default: False.",
    ).tag(config=True)

    def options(self, service_url: str = "") -> KubernetesOptions:
        """Return the settings, with defaults that depend on each other."""
        namespace = self.hub_namespace or _own_namespace()
        return KubernetesOptions(
            installation=self.installation,
            hub_namespace=namespace,
            nodes_namespace=self.nodes_namespace or f"{self.installation}-gq-nodes",
            training_namespace=self.training_namespace or f"{self.installation}-gq-train",
            service_url=self.service_url or service_url,
            runner_image=self.runner_image,
            reservation_image=self.reservation_image,
            reservation_priority_class=self.reservation_priority_class,
            training_priority_class=self.training_priority_class,
            placeholder_priority_class=self.placeholder_priority_class,
            image_pull_secrets=tuple(self.image_pull_secrets),
            unschedulable_after=self.unschedulable_after,
            reservation_timeout=self.reservation_timeout,
            linger=self.linger,
            start_timeout=self.start_timeout,
            gang_start_timeout=self.gang_start_timeout,
            gang_grace=self.gang_grace,
            attach_timeout=self.attach_timeout,
            pull_timeout=self.pull_timeout,
            agent_silent_after=self.agent_silent_after,
            node_lost_after=self.node_lost_after,
            leave_cordoned=self.leave_cordoned,
            as_jobs=self.as_jobs,
            checkpoint_claim=self.checkpoint_claim,
            checkpoint_url=self.checkpoint_url,
            pod_overrides=self.pod_overrides,
            request_timeout=self.request_timeout,
            creations=self.creations,
            starts_ahead=self.starts_ahead,
            observe_all_pods=self.observe_all_pods,
        )

    def open_cluster(self) -> "Cluster":
        """Return the client of the cluster; raises `BackendError` with a sentence if there is none."""
        try:
            from .api.cluster import Cluster
        except ImportError as error:
            raise BackendError(
                "The Python package kubernetes is missing. Install jupyter-gq[kubernetes] where the service runs."
            ) from error
        workers = self.creations + _OTHER_CALLS
        return Cluster.open(
            kubeconfig=self.kubeconfig, timeout=self.request_timeout, workers=workers, agent=f"jupyter-gq/{_version()}"
        )

    def lease(self, *, elapsed: Callable[[], float], now: Callable[[], float]) -> Lease:
        """Return the Lease that decides which of several services acts.

        The Lease has connections of its own, so that no other request delays it. `elapsed` is a clock that nobody sets.
        """
        seat = Seat(
            namespace=self.options().hub_namespace,
            name=f"{self.installation}-gq-service",
            identity=f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}",
            labels=labels(self.installation, SERVICE),
        )
        return Lease(self.open_cluster(), seat, elapsed=elapsed, now=now, times=Times.of(self.lease_duration))

    def backend(
        self,
        *,
        pools: Callable[[], Sequence[PodPool]],
        stopper: ServerStopper,
        clocks: Clocks,
        on_change: Callable[[], None],
        service_url: str = "",
        cluster: "Cluster | None" = None,
    ) -> KubernetesRuns:
        """Return the backend.

        `pools` returns the pools in force, `on_change` makes the controller look, and `cluster` replaces the client.
        """
        return KubernetesRuns(
            self.options(service_url),
            cluster=cluster or self.open_cluster(),
            pools=pools,
            stopper=stopper,
            clocks=clocks,
            on_change=on_change,
        )


def _own_namespace() -> str:
    """Return the namespace of the pod that this process runs in."""
    named = os.environ.get("POD_NAMESPACE", "")
    if named:
        return named
    try:
        with open("/var/run/secrets/kubernetes.io/serviceaccount/namespace", encoding="utf-8") as file:
            return file.read().strip()
    except OSError as error:
        raise BackendError(
            "The hub's namespace is not known, for the service runs in no pod. Set c.KubernetesBackend.hub_namespace."
        ) from error


def _version() -> str:
    try:
        return version("jupyter-gq")
    except PackageNotFoundError:
        return "0"
