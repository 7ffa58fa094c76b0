"""Settings of the Kubernetes backend."""

import os
import secrets
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from traitlets import Bool, Bunch, Dict, Integer, List, TraitError, Unicode, validate
from traitlets.config import LoggingConfigurable

from jupyter_gq import __version__
from jupyter_gq.backends.server_stopper import ServerStopper
from jupyter_gq.client.finite_float import FiniteFloat
from jupyter_gq.domain.errors import AdminError, BackendError
from jupyter_gq.domain.pod_pool import PodPool

from .backend import KubernetesRuns
from .bundles import BundleDatabase, StoredBundles, open_bundles
from .clocks import Clocks
from .contents_at_url import try_url
from .leader.election import Times
from .leader.lease import Lease, Seat
from .objects.names import SERVICE, labels
from .options import KubernetesOptions
from .place import open_place, require_usable_url
from .pod_overrides import PodOverrides
from .secret_names import SecretOfEachUser
from .shared_volumes import SharedVolumes, VolumeOfEachUser, list_volumes, require_own_paths

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
        help="Name of this installation. All objects that it creates have the name as a label, so that two "
        "installations in one cluster do not meet. The chart sets the name of the release. Default: jupyter-gq.",
    ).tag(config=True)
    hub_namespace = Unicode(
        help="Namespace of the hub and of the notebooks' pods. Default: the namespace of the service's own pod."
    ).tag(config=True)
    nodes_namespace = Unicode(
        help="Namespace of the reservation pods and the agents. Default: the name of the installation with -gq-nodes."
    ).tag(config=True)
    training_namespace = Unicode(
        help="Namespace of the pods of jobs. Default: the name of the installation with -gq-train."
    ).tag(config=True)
    service_url = Unicode(
        help="Address at which pods of jobs reach this service, such as "
        "http://jupyter-gq.hub.svc:8089/services/jupyter-gq/. Default: the address on which the service listens."
    ).tag(config=True)
    runner_image = Unicode(
        help='Image of jobs whose notebook has no known image. Default: "", such jobs fail with a sentence.'
    ).tag(config=True)
    reservation_image = Unicode(
        "registry.k8s.io/pause:3.10", help="Image of the reservation pods. Its program only has to wait."
    ).tag(config=True)
    reservation_priority_class = Unicode(
        help='Priority class of the reservation pods, so that they are not preempted. Default: "", none.'
    ).tag(config=True)
    training_priority_class = Unicode(help='Priority class of the pods of jobs. Default: "", none.').tag(config=True)
    placeholder_priority_class = Unicode(
        help="Priority class of the placeholders, which ask a cluster autoscaler for a new node. Choose the lowest "
        'priority that the autoscaler counts, so that any other pod may take their place. Default: "", none.'
    ).tag(config=True)
    image_pull_secrets = List(
        Unicode(), help="Names of pull secrets; they must exist in the training and the nodes namespace. Default: none."
    ).tag(config=True)
    unschedulable_after = FiniteFloat(
        20.0,
        help="Seconds that the cluster may fail to place a pod. After that the pod is deleted, its node pauses and the "
        "work is planned again. Default: 20.",
    ).tag(config=True)
    reservation_timeout = FiniteFloat(
        30.0,
        help="Seconds that a reservation pod may take to hold a device. After that its node pauses. Default: 30.",
    ).tag(config=True)
    linger = FiniteFloat(
        60.0,
        help="Seconds that a device stays reserved after the end of its last share, so that the next share need not "
        "wait. Default: 60.",
    ).tag(config=True)
    start_timeout = FiniteFloat(
        1200.0,
        help="Seconds that the container of a job's task may take to start once its pod has a node. After that the pod "
        "is deleted, the node pauses and the job is planned again. Allow enough time for the first pull of a large "
        "image. Default: 1200.",
    ).tag(config=True)
    gang_start_timeout = FiniteFloat(
        300.0,
        help="Seconds in which all tasks of a job must run: the first tasks hold their GPUs until the last task runs. "
        "After that all pods of the job are deleted, nodes where a task has not started pause, and the job is planned "
        "again. Default: 300.",
    ).tag(config=True)
    gang_grace = FiniteFloat(
        10.0, help="Seconds that the other tasks of a job have to end after a task has failed. Default: 10."
    ).tag(config=True)
    attach_timeout = FiniteFloat(
        180.0,
        help="Seconds that the hub has to create a notebook's pod after its share was admitted. Default: 180.",
    ).tag(config=True)
    pull_timeout = FiniteFloat(
        60.0,
        help="Seconds for which, without a pause, the image of a job may be impossible to pull, or a container of its "
        "pod not start for another reason that may pass. Then the job fails with that reason. Default: 60.",
    ).tag(config=True)
    agent_silent_after = FiniteFloat(
        60.0, help="Seconds without a report of a node's agent after which the node gets no new shares. Default: 60."
    ).tag(config=True)
    node_lost_after = FiniteFloat(
        60.0, help="Seconds that a node may be not ready before the runs on it count as lost. Default: 60."
    ).tag(config=True)
    leave_cordoned = Bool(
        True,
        help="True: if a node is cordoned, preemptible jobs on it are paused at once, with their grace, and wait for "
        "another place, because a drain usually follows. False: jobs stay until something ends them. Default: True.",
    ).tag(config=True)
    as_jobs = Bool(
        False,
        help="True: make each task as a Job of batch/v1, for sites that forbid bare pods. Default: False.",
    ).tag(config=True)
    checkpoint_claim = Unicode(
        help="Name of a volume claim in the training namespace, in which jobs save their state: one folder for each "
        'job, in a folder of its owner. Default: "", state is lost with the pod.'
    ).tag(config=True)
    user_secret = SecretOfEachUser(
        help='Name of the Secret in the training namespace that has the secrets of a user, such as "gq-{username}". '
        "Its keys are the names of the variables that jobs find. The kubelet reads it; the service needs no right to. "
        'Default: "", jobs have no secrets.'
    ).tag(config=True)
    checkpoint_url = Unicode(
        help="URL for fsspec under which jobs save their state. A job finds its own URL in GQ_CHECKPOINT_URL. "
        "Credentials are refused here: give them to the pods of jobs. "
        'Default: "", none.'
    ).tag(config=True)
    bundle_url = Unicode(
        help="URL for fsspec, such as s3://bucket/folder, at which the service keeps the large files of jobs: what "
        "jobs take along and bring back. Pods of jobs fetch them through the service. The service's image needs "
        "fsspec and the package for the kind of URL, such as s3fs. Credentials are refused here: give them to the "
        "service in variables of its environment. "
        'Default: "", all are in the database.'
    ).tag(config=True)
    home_volume = VolumeOfEachUser(
        help="Volume claim in the training namespace with the homes of the users, which several nodes can mount: "
        '{"claim": "homes", "path": "/home/jovyan", "sub_path": "{username}"}. Jobs have it at `path`, as the '
        "notebooks do. {username} in claim or sub_path is the name of the job's owner, as KubeSpawner 7 writes it. "
        "Default: {}, jobs have no home of a notebook."
    ).tag(config=True)
    data_volumes = SharedVolumes(
        Dict(),
        help="Volume claims in the training namespace with data, which jobs have at the same path as the notebooks, "
        'and cannot change, such as [{"claim": "imagenet", "path": "/data/imagenet"}]. Default: [].',
    ).tag(config=True)
    pod_overrides = PodOverrides(
        help="Part of a pod that is merged into the pod of each task: mappings by key, lists of named objects by name. "
        "It cannot set the name, namespace and node of a pod, jupyter-gq's own labels and annotations, or what gives a "
        "container GPUs that the job did not ask for: resources of GPUs, `resourceClaims`, `NVIDIA_VISIBLE_DEVICES`, a "
        "privileged runner. The database, its backups and snapshots have these values in clear: a variable with a "
        "credential names a Secret by `valueFrom`. Default: {}."
    ).tag(config=True)
    lease_duration = FiniteFloat(
        15.0,
        least=0.1,
        help="Seconds after which a waiting service takes over from a leader that does not renew its lease. A leader "
        "that cannot renew stops acting after two thirds of the time. A leader that has not reached its database for "
        "four times as long gives the lease back. Default: 15.",
    ).tag(config=True)
    kubeconfig = Unicode(
        help='Path of a kubeconfig. Default: "", the service account of the pod that the service runs in.'
    ).tag(config=True)
    request_timeout = FiniteFloat(
        10.0, least=0.1, help="Seconds that a call to the API server may take. Default: 10."
    ).tag(config=True)
    creations = Integer(100, min=1, help="Largest number of pods that are created at the same time. Default: 100.").tag(
        config=True
    )
    starts_ahead = Integer(
        200,
        min=1,
        help="Launch capacity: largest number of pods that are wanted but not created yet. Beyond it no more jobs are "
        "started; they stay in their queues, so that more urgent jobs can still pass them. If the API server creates "
        "200 pods a second, a started job has its pods about a second later. Default: 200.",
    ).tag(config=True)
    observe_all_pods = Bool(
        False,
        help="True: read all pods of the cluster, to know the CPU and memory that other programs use on the nodes. The "
        "service account needs the right to list all pods. Default: False.",
    ).tag(config=True)

    def options(self, service_url: str = "") -> KubernetesOptions:
        """Return the settings as frozen options, with namespaces filled in that are not set.

        `service_url` is used if the setting of that name is empty. Raises `BackendError` if the hub's namespace is not
        known.
        """
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
            user_secret=self.user_secret,
            shared_volumes=list_volumes(self.home_volume, self.data_volumes),
            pod_overrides=self.pod_overrides,
            request_timeout=self.request_timeout,
            creations=self.creations,
            starts_ahead=self.starts_ahead,
            observe_all_pods=self.observe_all_pods,
        )

    @validate("home_volume", "data_volumes")
    def _require_own_paths(self, proposal: Bunch) -> object:
        """Return the proposed volumes if no two have one path; raise `TraitError`."""
        is_home = proposal["trait"].name == "home_volume"
        home, data = (proposal["value"], self.data_volumes) if is_home else (self.home_volume, proposal["value"])
        require_own_paths(list_volumes(home, data))
        return proposal["value"]

    @validate("bundle_url", "checkpoint_url")
    def _require_usable_url(self, proposal: Bunch) -> str:
        """Return the proposed URL if it is one, holds no credentials and names a store that lasts; else raise."""
        url: str = proposal["value"]
        if url:
            try:
                require_usable_url(proposal["trait"].name, url)
            except AdminError as error:
                raise TraitError(str(error)) from None  # the cause shows nothing more
        return url

    def check_bundle_url(self) -> None:
        """Raise `AdminError` if `bundle_url` cannot be used, whatever the state of the store at that URL."""
        if self.bundle_url:
            open_place(self.bundle_url)

    def try_bundle_url(self) -> str:
        """Write, read and delete a small object at `bundle_url`; return why that fails from here, as a sentence.

        Returns "" if it works, and if there is no URL. Takes some seconds at most for each of these steps.
        """
        try:
            failure = try_url(self.bundle_url) if self.bundle_url else ""
        except AdminError as error:
            return str(error)
        told = f"KubernetesBackend.bundle_url, {self.bundle_url}, cannot be used: {failure.rstrip('.')}."
        return told if failure else ""

    def bundles(self, store: BundleDatabase) -> StoredBundles:
        """Return the files of jobs in the store, with large contents at `bundle_url` if it is set.

        Waits some seconds for the first use of that URL. If it fails, that is logged and tried again. Raises
        `AdminError` as `check_bundle_url` does.
        """
        return open_bundles(store, self.bundle_url)

    def open_cluster(self) -> "Cluster":
        """Return a new client of the cluster.

        Raises `BackendError` with a sentence if the Kubernetes package or the access to the cluster is missing.
        """
        try:
            from .api.cluster import Cluster
        except ImportError as error:
            raise BackendError(
                "The Python package kubernetes is missing. Install jupyter-gq[kubernetes] where the service runs."
            ) from error
        workers = self.creations + _OTHER_CALLS
        return Cluster.open(
            kubeconfig=self.kubeconfig, timeout=self.request_timeout, workers=workers, agent=f"jupyter-gq/{__version__}"
        )

    def lease(self, *, elapsed: Callable[[], float], now: Callable[[], float]) -> Lease:
        """Return a new candidate for the Lease that decides which of several services acts.

        The Lease has connections of its own, so that no other request delays it. `elapsed` is a clock that nobody sets;
        `now` returns the time in seconds since the epoch.
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
        """Build the backend; raise `BackendError` as `options` and `open_cluster` do.

        `pools` returns the pools in force, `stopper` stops servers through the Hub, and `on_change` is called after
        each change in the cluster. `cluster` replaces the client that the settings name.
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
    """Return the namespace of the pod that this process runs in; raise `BackendError` if it runs in none."""
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
