"""The scheduler service: the only module that chooses the implementations and connects them.

On one machine the Hub starts the service; on Kubernetes the chart does. Either way the address, the prefix and the
token come from the environment variables that the Hub sets for services, and everything else from the Hub's own
configuration file.
"""

import asyncio
import contextlib
import copy
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from traitlets import Bool, Enum, List, TraitError, Unicode, default, observe
from traitlets.config import Config, Configurable
from traitlets.utils.bunch import Bunch

from jupyter_gq.api.auth import HubAuthenticator
from jupyter_gq.api.connection_settings import ServiceConnections
from jupyter_gq.api.listener import Listener
from jupyter_gq.api.pods import PodAuthenticator
from jupyter_gq.backends.hub_directory import HubDirectory
from jupyter_gq.backends.kubernetes.leader.lease import LeaseLost
from jupyter_gq.backends.local import LocalBackend, check_folder, describe_unwritable, jobs_with_files
from jupyter_gq.backends.local.machine import measure_memory
from jupyter_gq.backends.notifications.secret_traits import SecretText
from jupyter_gq.backends.notifications.settings import Notifications
from jupyter_gq.backends.server_stopper import HubServerStopper
from jupyter_gq.backends.servers import ServersBackend
from jupyter_gq.client.connection.service_address import SOCKET_VARIABLE, SocketPlace
from jupyter_gq.client.plain_output import log_plainly
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.loop.interpreter import set_the_interpreter
from jupyter_gq.controller.loop.store_outage import StoreOutage
from jupyter_gq.controller.settings.config_file import ConfigFileError
from jupyter_gq.controller.settings.early_execution import EarlyExecution
from jupyter_gq.controller.settings.last_good import GUARDED, LAST_GOOD, LastGood, explain_loss
from jupyter_gq.controller.settings.loaded_policy import find_policy
from jupyter_gq.controller.settings.policy_file import PolicyFile
from jupyter_gq.controller.settings.reading import Reading
from jupyter_gq.controller.settings.start_sections import StartSections
from jupyter_gq.controller.settings.told_errors import as_trait_error, describe_refusal
from jupyter_gq.controller.settings.traits import SettingsError, withdraw_config
from jupyter_gq.controller.settings.trial import make_trial
from jupyter_gq.controller.signal import LateCallback
from jupyter_gq.controller.views.mentions import ShowNames
from jupyter_gq.devices.choose import choose_probe, choose_suspender
from jupyter_gq.devices.meter import ReportedMeter
from jupyter_gq.devices.nvidia.nvml import NvmlProbe
from jupyter_gq.devices.simulated.devices import SimulatedDevices
from jupyter_gq.devices.suspension.journal import JOURNAL_NAME
from jupyter_gq.devices.suspension.run_shares import RunShares
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.errors import AdminError, BackendError, JupyterGQError, StoreAway, StoreUnavailable, Superseded
from jupyter_gq.service_log import LoggedApplication
from jupyter_gq.service_waits import Ended, lead, wait_for_store
from jupyter_gq.start_sections import find_start_sections
from jupyter_gq.store.engine import SERVICE, check_url, make_sqlite_url
from jupyter_gq.store.folder_lock import lock_folder
from jupyter_gq.store.reachability import expect_database, peek_setting
from jupyter_gq.store.reserve import RESERVE
from jupyter_gq.store.sql import SqlStore


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    """The parts of one service that the listener needs."""

    controller: Controller
    #: Knows the tokens of pods; None where nothing runs in pods.
    pods: PodAuthenticator | None = None


class SchedulerService(LoggedApplication):
    """The application `jupyter-gq service`: it decides who gets which GPU, and serves the API."""

    name = "jupyter-gq service"
    description = "The scheduler service of jupyter-gq. JupyterHub starts it."
    aliases = {"config": "SchedulerService.config_file", "f": "SchedulerService.config_file"}

    config_file = Unicode(
        "jupyterhub_config.py", help="The Hub's configuration file, from which quotas, queues and devices are read."
    ).tag(config=True)
    backend = Enum(
        ["local", "kubernetes"],
        "local",
        help="The backend that runs notebooks and jobs: `local`, as processes of this machine, or `kubernetes`, as "
        "pods of a cluster. Default: local.",
    ).tag(config=True)
    state_dir = Unicode(
        "jupyter-gq-state",
        help="Folder for the database and the files of jobs, relative to the Hub's working folder. "
        'Default: "jupyter-gq-state".',
    ).tag(config=True)
    socket_dir = Unicode(
        help="Folder of the Unix socket at which the service answers servers, jobs and the Hub on one machine. Only "
        "the service's account may write in it. Set it before `configure(c)`. Default: `socket` in the state folder."
    ).tag(config=True)
    database_url = SecretText(help="SQLAlchemy URL of the database. Default: a SQLite file in the state folder.").tag(
        config=True
    )
    allow_empty = List(
        Enum(list(GUARDED)),
        help="Settings that may lose all their entries when this file changes, such as "
        '["TrainingQueues.queues"]. Without it such a change is refused, because a file that was cut off looks like '
        "that. Default: none.",
    ).tag(config=True)
    leader_election = Bool(
        True,
        help="True: on Kubernetes, only the service that holds a lease in the hub's namespace acts; other services "
        "wait. Set False only if there can never be two services. Default: True.",
    ).tag(config=True)
    show_names = Enum(
        [each.value for each in ShowNames],
        ShowNames.ALL.value,
        help="Who sees the names of a user, and of the user's servers and jobs, in sentences for others: `nobody`; "
        '`group`, those who share a group of the Hub or a training queue with the user; or `all`. Others read "another '
        "user's job\". Administrators see all names. Default: all.",
    ).tag(config=True)
    log_style = Enum(
        ["text", "json"],
        "text",
        help="The form of the service's log: `text`, lines for people, or `json`, one JSON object on each line with "
        "time, level and ids of workload, run, user and server. Default: text.",
    ).tag(config=True)
    check_invariants = Bool(
        False,
        help="True: after each step, check that no device is promised twice, and fail the step if one is. "
        "Default: False.",
    ).tag(config=True)

    @observe("config")
    def _config_changed(self, change: Bunch) -> None:
        """Set the traits, without the line of the log with which an application shows all values, also secret ones."""
        Configurable._config_changed(self, change)

    @default("log_level")
    def _default_log_level(self) -> int:
        return logging.INFO

    @default("log_format")
    def _default_log_format(self) -> str:
        return "[%(levelname)1.1s %(asctime)s %(name)s] %(message)s"

    @default("state_dir")
    def _default_state_dir(self) -> str:
        return os.environ.get("JUPYTER_GQ_STATE_DIR", "jupyter-gq-state")

    @default("database_url")
    def _default_database_url(self) -> str:
        return os.environ.get("JUPYTER_GQ_DATABASE_URL", "")

    #: The last good policy of an earlier service, which is in force while the file cannot be used.
    _stored: LastGood | None = None
    #: Sentences about what of the Hub's file is not in force until the service starts again.
    _lacking: tuple[str, ...] = ()
    #: The first execution of the Hub's file.
    _early: EarlyExecution | None = None
    #: Why the service cannot start; raised by `start`.
    _trouble: TraitError | None = None

    def initialize(self, argv: list[str] | None = None) -> None:
        """Read the command line, and then the Hub's file; if the file cannot be used, take the last good settings.

        The last good settings come from the database, whose address the environment variables of `configure(c)` or of
        the chart give. A value that a trait refuses is raised by `start`, if there are no such settings.
        """
        self.parse_command_line(argv)
        found = self._read_file()
        try:
            document = peek_setting(self._url(), LAST_GOOD)
        except AdminError:  # of the state folder, which `start` raises again
            return
        if document is None:
            return
        self._stored = LastGood.from_document(document)
        if found is None or explain_loss(self._stored, found) is not None:
            self._trouble, self._lacking = None, self._stored.describe_missing()
            self._replace_config(self._stored.to_config())

    def check_start(self) -> None:
        """Raise `AdminError` if the log, the place of the state folder or the URL of the database cannot be used.

        On one machine, the path of the socket is checked too. No handler is made, and no database server is asked.
        """
        super().check_start()
        self._state()
        if self.backend == "local":
            self._check_socket()
        check_url(self._url())

    def _check_socket(self) -> None:
        """Raise `AdminError` if the service cannot have its socket where the settings say."""
        given = "" if self.socket_dir else os.environ.get(SOCKET_VARIABLE, "")
        place = SocketPlace.own(given, self.socket_dir, self._state())
        place.url("")
        if not given:  # what the Hub has chosen is told when the service listens there
            check_folder(self.socket_dir or str(place.path.parent), "socket_dir", "folder of the socket")
            place.check_folder()

    def describe_unwritable_folders(self) -> list[str]:
        """Return a sentence for each folder in which a service on one machine writes and this process may not."""
        folders = {"state folder": self.state_dir, "folder of the socket": self.socket_dir}
        if self.backend != "local":
            return []
        return [told for noun, path in folders.items() if path and (told := describe_unwritable(path, noun))]

    def _read_file(self) -> LastGood | None:
        """Apply the settings of the Hub's file and return them; None if the file cannot be used.

        A value that a trait refuses is kept in `_trouble`.
        """
        early = self._early = EarlyExecution(
            Path(self.config_file), make_trial(self._sections().names, measure_memory())
        )
        if not early.reading.wait_in_time():
            return None  # `PolicyFile` reports that the file hangs
        try:
            config = early.reading.result()
            self.update_config(self._with_command_line(config))
            sections = self._sections()
            trial = Reading(lambda: find_policy(config, early.executed, sections))
            return trial.result() if trial.wait_in_time() else None  # code that values name may wait, too
        except BaseException as error:  # noqa: BLE001 - the code of a value's class may raise anything
            if not isinstance(error, ConfigFileError | SettingsError):  # which `PolicyFile` finds again and says
                self._trouble = as_trait_error(error, self.config_file)
            return None

    def _replace_config(self, stored: Config) -> None:
        """Put a stored config in force instead of the file, of which only the place of the stored settings remains."""
        own = self.config.get("SchedulerService", {})
        place = {name: getattr(self, name) for name in ("database_url", "state_dir") if name in own}
        withdraw_config(self)
        self.update_config(self._with_command_line(stored))
        for name, value in place.items():
            setattr(self, name, value)  # the stored place is another one if the database was moved since then

    def _with_command_line(self, config: Config) -> Config:
        """Return a copy of a config, in which values of the command line take precedence."""
        merged = copy.deepcopy(config)  # the policy is made from the same config, without the command line
        merged.merge(self.cli_config)
        return merged

    def start(self) -> None:
        """Serve until a signal comes; exit with code 1 and a message if the service cannot start or must not go on."""
        os.umask(0o077)
        log_plainly()
        fault = self.configure_log()
        if fault:
            self._lacking = (*self._lacking, fault)
        set_the_interpreter()
        try:
            if self._trouble is not None:
                raise self._trouble
            asyncio.run(self._serve())
        except (LeaseLost, Superseded) as error:
            self.log.critical("%s", error)
            sys.exit(1)
        except StoreUnavailable as error:  # says that the service tries again
            self.log.critical(
                "The scheduler service cannot start. Its database %s does not answer (%s). Check the database and the "
                "disk, and start the service again.",
                error.place,
                error.told,
            )
            sys.exit(1)
        except (JupyterGQError, TraitError) as error:
            self.log.critical("The scheduler service cannot start. %s", error)
            sys.exit(1)

    async def _serve(self) -> None:
        """Connect the parts and serve until a signal comes; connect them anew after the store was away for too long."""
        name = os.environ.get("JUPYTERHUB_SERVICE_NAME", "jupyter-gq")
        listener = Listener(
            url=os.environ.get("JUPYTERHUB_SERVICE_URL", "http://127.0.0.1:8089"),
            prefix=os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/services/jupyter-gq/"),
            authenticator=HubAuthenticator(*_hub_api(), service=name),
            connections=ServiceConnections(parent=self).make_registry(),
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, listener.ended.set)
        put_together = self._on_a_cluster if self.backend == "kubernetes" else self._on_this_machine
        with contextlib.suppress(Ended), contextlib.closing(listener.authenticator):
            while not listener.ended.is_set():
                try:
                    async with put_together(listener) as parts:
                        await self._work(listener, parts)
                except StoreAway as error:
                    # The service waits for its place again, as the same process: a restarted pod waits longer.
                    self.log.warning("%s", error)

    async def _work(self, listener: Listener, parts: _Parts) -> None:
        """Serve the API, and run the controller until a signal comes, the lease is lost or the controller fails."""
        controller = parts.controller
        async with listener.serve(
            controller.status,
            controller,
            bundle_limit=lambda: controller.settings.current.max_bundle_bytes,
            bundle_values=lambda: controller.settings.current.max_bundle_values,
            page="JUPYTERHUB_CLIENT_ID" in os.environ,  # without the Hub's login there is nobody to show it to
            pods=parts.pods,
        ):
            self.log.info("jupyter-gq service on %s", listener.place)
            await listener.run_until_ended(controller.run())

    @contextlib.asynccontextmanager
    async def _on_this_machine(self, listener: Listener) -> AsyncIterator[_Parts]:
        """Yield the parts of a service that runs notebooks and jobs as processes; close the store after the block."""
        clock, state, wake = SystemClock(), self._state(), LateCallback()
        listener.socket = SocketPlace.own(os.environ.get(SOCKET_VARIABLE, ""), self.socket_dir, state)
        # Locked before the ledger and the journal are read: an earlier service writes to them until it has ended.
        with lock_folder(state), contextlib.ExitStack() as opened:
            probe = choose_probe(NvmlProbe(now=clock.now), SimulatedDevices(config=self.config), clock.now)
            local, url = LocalBackend(parent=self), listener.service_url
            journal = state / JOURNAL_NAME
            suspender = choose_suspender(probe, journal, clock.elapsed, lambda: settings.current.suspension.host_memory)
            enforcers = local.enforcers(state_dir=state, probe=probe, awake=clock.awake, on_change=wake)
            shares = RunShares(
                suspender=suspender,
                now=clock.now,
                awake=clock.awake,
                on_change=wake,
                partitioned=enforcers.partitioned,
            )
            jobs = local.backend(
                state_dir=state, probe=probe, clock=clock, service_url=url, shares=shares, enforcers=enforcers
            )
            servers = ServersBackend(parent=self).backend(
                stopper=HubServerStopper(*_hub_api()), clock=clock, shares=shares, enforcers=enforcers
            )
            settings = await self._read_policy(listener, jobs.nodes)
            expect_database(self._url(), state, jobs_with_files(state))
            store = opened.enter_context(contextlib.closing(self._open_store()))
            controller = Controller(
                store=store,
                backends=(servers, jobs),
                settings=settings,
                clock=clock,
                bundles=local.bundles(state_dir=state),
                probe=probe,
                directory=HubDirectory(*_hub_api()),
                show_names=ShowNames(self.show_names),
                notices=Notifications(parent=self).rule(),
                check_invariants=self.check_invariants,
            )
            wake.target = controller.wake
            yield _Parts(controller=controller)

    @contextlib.asynccontextmanager
    async def _on_a_cluster(self, listener: Listener) -> AsyncIterator[_Parts]:
        """Wait until this service leads; then yield the parts of a service that runs notebooks and jobs as pods.

        After the block the backend, the store and the lease are closed.
        """
        from jupyter_gq.backends.kubernetes import Clocks, KubernetesBackend  # one machine has no use for it

        clock = SystemClock()
        # Which nodes there are is not asked before the settings are in force.
        settings = await self._read_policy(listener, tuple)
        wake, backend = LateCallback(), KubernetesBackend(parent=self)
        backend.check_bundle_url()
        lease = backend.lease(elapsed=clock.elapsed, now=clock.now) if self.leader_election else None
        outage = StoreOutage() if lease is None else StoreOutage(lease.times.without_store, clock.elapsed)
        async with contextlib.AsyncExitStack() as opened:
            if lease is not None:
                opened.callback(lease.close)
            leads = await opened.enter_async_context(lead(listener, lease, self._url()))
            # Only now: who waits must not change the schema.
            store = await wait_for_store(listener, outage, self._open_store)
            opened.callback(store.close)
            bundles = await wait_for_store(listener, outage, lambda: backend.bundles(store))
            opened.callback(bundles.close)
            runs = backend.backend(
                pools=lambda: settings.current.pod_pools,
                stopper=HubServerStopper(*_hub_api()),
                clocks=Clocks(elapsed=clock.elapsed, now=clock.now),
                on_change=wake,
                service_url=listener.service_url,
            )
            runs.share_orders.limit = lambda: settings.current.suspension.host_memory
            opened.push_async_callback(runs.close)
            controller = Controller(
                store=store,
                backends=(runs,),
                settings=settings,
                clock=clock,
                bundles=bundles,
                meter=ReportedMeter(runs.find_uses),
                leads=leads,
                outage=outage,
                directory=HubDirectory(*_hub_api()),
                show_names=ShowNames(self.show_names),
                notices=Notifications(parent=self).rule(),
                check_invariants=self.check_invariants,
            )
            wake.target = controller.wake
            pods = PodAuthenticator(
                runs.cluster.review_token,
                nodes_namespace=runs.options.nodes_namespace,
                training_namespace=runs.options.training_namespace,
            )
            with contextlib.suppress(BackendError):  # the backend logs the failure and tries again
                await runs.observe()  # before the first request asks what is there
            yield _Parts(controller=controller, pods=pods)

    def _sections(self) -> StartSections:
        """Return the sections that this service reads at its start, beneath the values of its command line."""
        if self.backend == "local":
            found = find_start_sections(SchedulerService, LocalBackend, ServersBackend, SimulatedDevices)
            return replace(found, check=lambda config: self._check_start_sections(found.check, config))
        from jupyter_gq.backends.kubernetes import KubernetesBackend  # one machine has no use for it

        on_pods = find_start_sections(SchedulerService, KubernetesBackend)

        def check(config: Config) -> None:
            on_pods.check(config)
            KubernetesBackend(config=config).check_bundle_url()  # here only: elsewhere its packages may be missing

        return replace(on_pods, check=lambda config: self._check_start_sections(check, config))

    def _check_start_sections(self, check: Callable[[Config], None], config: Config) -> None:
        """Raise the error of `check` for a config beneath the values of the command line.

        If the config alone is good, the error is a `ConfigFileError` that names the command line and no file.
        """
        try:
            check(self._with_command_line(config))
        except (AdminError, TraitError) as error:
            if _is_accepted(check, config):
                raise ConfigFileError(f"The command line of the service: {describe_refusal(error)}") from error
            raise

    async def _read_policy(self, listener: Listener, nodes: Callable[[], Sequence[Node] | None]) -> PolicyFile:
        """Return the settings of the Hub's file, or the last good ones; `nodes` is that of `PolicyFile`.

        Raises `Ended` if a signal comes first: a file that hangs must not hold up the end of the service.
        """
        path, sections = Path(self.config_file), self._sections()
        trial = make_trial(sections.names, measure_memory())
        reading = Reading(lambda: PolicyFile.at_start(path, nodes, sections, self._stored, self._early, trial))
        await listener.run_until_ended(reading.wait())
        if not reading.has_ended():
            raise Ended
        policy = reading.result()
        policy.warn_of_missing(self._lacking)
        return policy

    def _url(self) -> str:
        """Return the SQLAlchemy URL of the database; raise `AdminError` if its state folder cannot be there."""
        return self.database_url or make_sqlite_url(self._state() / "service.sqlite")

    def _state(self) -> Path:
        """Return the state folder as an absolute path; raise `AdminError` if there can be no folder."""
        check_folder(self.state_dir, "state_dir", "state folder")
        return Path(self.state_dir).resolve()

    def _open_store(self) -> SqlStore:
        """Open the store and take it over, so that only this service writes to it from now on.

        Raises `StoreUnavailable` if the database does not answer, and `DamagedDatabase` if a page of a SQLite file is
        damaged.
        """
        store = SqlStore(self._url(), reserve=RESERVE, program=SERVICE)
        try:
            store.check_pages()
            store.take_over()
        except BaseException:
            store.close()
            raise
        return store


def _is_accepted(check: Callable[[Config], None], config: Config) -> bool:
    """Return whether `check` raises no error for the config."""
    try:
        check(config)
    except (AdminError, TraitError):
        return False
    return True


def _hub_api() -> tuple[str, str]:
    """Return the address of the Hub's API and this service's token for it, from the environment.

    Without the variables the address is that of a Hub on this machine, and the token is "".
    """
    api_url = os.environ.get("JUPYTERHUB_API_URL", "http://127.0.0.1:8081/hub/api")
    return api_url, os.environ.get("JUPYTERHUB_API_TOKEN", "")
