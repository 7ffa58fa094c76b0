"""A real control plane of the session's own: etcd, API server, scheduler, controller manager, on loopback ports.

Guarantees
----------
1. Authorisation is real: modes Node and RBAC, with NodeRestriction and ServiceAccount. Only `admin` may do everything.
2. A configuration or client made here speaks for exactly one user: nothing of a kubeconfig of this machine leaks in.
3. `end` ends every program; they also end when the test session is killed.
"""

import json
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

import kubernetes.client as k8s
import urllib3
import yaml

from tests.kubernetes.certificates import Authority, write_service_account_keys
from tests.kubernetes.programs import Programs
from tests.kubernetes.waiting import until
from tests.patience import scaled
from tests.ports import claim_port

PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager")
ADMIN = "admin"
#: Those with a token that never changes, and their groups.
_KNOWN = {
    ADMIN: ("system:masters",),
    "system:kube-scheduler": (),
    "system:kube-controller-manager": (),
}
#: Seconds after which a node that is silent is Unknown; its pods are evicted `EVICTED_AFTER` seconds later, unless it
#: is heard again. On a slow machine heartbeats and tests are late, so both are more there.
NODE_SILENT_AFTER = 8
EVICTED_AFTER = 6
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


def account(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A request that the API server has answered, or a watch that it has begun to answer."""

    #: The user who asked.
    user: str
    #: get, list, watch, create, update, patch, delete, deletecollection.
    verb: str
    #: Such as pods or pods/status.
    resource: str
    #: Empty for what belongs to no namespace.
    namespace: str
    #: Empty for lists.
    name: str
    #: HTTP status.
    status: int
    #: How the client calls itself.
    agent: str


class ControlPlane:
    """Start it, ask it for clients and configurations, end it."""

    def __init__(self, tools: Path, folder: Path, *, node_silent_after: int | None = None) -> None:
        """`node_silent_after`: seconds after which a node that is silent is Unknown; many nodes need more than
        `NODE_SILENT_AFTER`, which is the default."""
        self.tools, self.folder = tools, folder
        self.node_silent_after = node_silent_after or round(scaled(NODE_SILENT_AFTER))
        self.programs = Programs(folder)
        self.port = claim_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.ca_file = folder / "certificates" / "apiserver.crt"
        self.audit_log = folder / "audit.log"
        #: How often the API server was started.
        self.api_starts = 0
        #: The number of the start since which scheduler and controllers have seen it.
        self._followed = 1
        self._etcd = f"http://127.0.0.1:{claim_port()}"
        self._tokens = {user: secrets.token_hex(16) for user in _KNOWN}
        self._authority = Authority(folder)
        self._clients: dict[tuple, k8s.ApiClient] = {}

    # --- start and end -----------------------------------------------------------------------------------------

    def start(self) -> None:
        write_service_account_keys(self.folder)
        rows = (f'{self._tokens[user]},{user},{user},"{",".join(groups)}"\n' for user, groups in _KNOWN.items())
        (self.folder / "tokens.csv").write_text("".join(rows))
        (self.folder / "audit.yaml").write_text(yaml.safe_dump(_AUDIT))
        self._start_etcd()
        self.start_api()
        self._start_scheduler()
        self._start_controllers()

    def end(self) -> None:
        for client in self._clients.values():
            _close(client)
        self.programs.end()

    def _start_etcd(self) -> None:
        peers = f"http://127.0.0.1:{claim_port()}"
        data = self.folder / "etcd"
        data.mkdir(mode=0o700, exist_ok=True)
        addresses = ["--listen-client-urls", self._etcd, "--advertise-client-urls", self._etcd]
        addresses += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
        addresses += ["--initial-cluster", f"default={peers}"]
        self.programs.start("etcd", [self.tools / "etcd", "--unsafe-no-fsync", "--data-dir", data, *addresses])

    def start_api(self) -> None:
        """Start the API server and wait until it is ready for everybody, not only for administrators."""
        self.api_starts += 1
        files = self.folder
        options = {
            "etcd-servers": self._etcd,
            "bind-address": "127.0.0.1",
            "secure-port": self.port,
            "cert-dir": files / "certificates",
            # Loopback is no address that the service `kubernetes` may have.
            "endpoint-reconciler-type": "none",
            "service-cluster-ip-range": "10.0.0.0/20",
            "service-account-key-file": files / "sa.pub",
            "service-account-signing-key-file": files / "sa.key",
            "service-account-issuer": "https://kubernetes.default.svc",
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction,ServiceAccount",
            "token-auth-file": files / "tokens.csv",
            "client-ca-file": self._authority.certificate_file,
            "allow-privileged": "true",
            "default-not-ready-toleration-seconds": round(scaled(EVICTED_AFTER)),
            "default-unreachable-toleration-seconds": round(scaled(EVICTED_AFTER)),
            # Without it the end waits a minute for watches that are open.
            "shutdown-watch-termination-grace-period": "1s",
            "audit-policy-file": files / "audit.yaml",
            "audit-log-path": self.audit_log,
        }
        self._start("kube-apiserver", options)
        until(self._ready, lambda: "the API server: " + self.programs.log("kube-apiserver"), every=0.1)

    def _ready(self) -> bool:
        if not self.programs.running("kube-apiserver"):
            raise AssertionError(f"the API server has ended: {self.programs.log('kube-apiserver')}")
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                pass
            self.client().call_api("GET", f"{self.url}/readyz", {"authorization": f"Bearer {self._tokens[ADMIN]}"})
        except (OSError, urllib3.exceptions.HTTPError, k8s.ApiException):
            return False
        return True

    def stop_api(self) -> None:
        """End the API server, as an upgrade would: open watches are closed, nothing answers."""
        self.programs.stop("kube-apiserver")

    def settle(self) -> None:
        """Scheduler and controllers anew, if the API server was away since they began.

        They look again one kind of objects after the other, within a minute, and until then a pod may be found to fit
        nowhere for minutes.
        """
        if self._followed != self.api_starts:
            self.restart_followers()

    def restart_followers(self) -> None:
        """Scheduler and controllers anew: after a long outage they wait half a minute before they look again."""
        self._followed = self.api_starts
        for name, start in (
            ("kube-scheduler", self._start_scheduler),
            ("kube-controller-manager", self._start_controllers),
        ):
            self.programs.stop(name)
            start()

    def _start_scheduler(self) -> None:
        options = {"kube-api-qps": 500, "kube-api-burst": 1000}
        self._start("kube-scheduler", options | self._follower("system:kube-scheduler"))

    def _start_controllers(self) -> None:
        options = {
            "service-account-private-key-file": self.folder / "sa.key",
            "root-ca-file": self.ca_file,
            # Without it the not-ready taint stays on every node, and nothing is scheduled.
            "use-service-account-credentials": "true",
            "node-monitor-period": "1s",
            "node-monitor-grace-period": f"{self.node_silent_after}s",
            "kube-api-qps": 500,
            "kube-api-burst": 1000,
        }
        self._start("kube-controller-manager", options | self._follower("system:kube-controller-manager"))

    def _follower(self, user: str) -> dict[str, object]:
        return {"kubeconfig": self.kubeconfig(user), "leader-elect": "false", "secure-port": 0}

    def _start(self, name: str, options) -> None:
        arguments = [f"--{option}={value}" for option, value in options.items()]
        # Three programs on two cores collect garbage less often than they would.
        self.programs.start(name, [self.tools / name, *arguments], {"GOGC": "200"})

    # --- users -------------------------------------------------------------------------------------------------

    def config_for(self, user: str = ADMIN, groups=(), token: str | None = None) -> k8s.Configuration:
        """A fresh configuration for this user, or for who owns this token.

        A user is `admin`, a service account (`account(namespace, name)`: a token is asked for it) or any other name,
        with its groups: for a node `system:node:<name>` and `["system:nodes"]`.
        """
        configuration = k8s.Configuration(host=self.url, ssl_ca_cert=str(self.ca_file))
        token = token or self._token_of(user)
        if token:
            configuration.api_key = {"authorization": f"Bearer {token}"}
        else:
            certificate, key = self.certificate(user, groups)
            configuration.cert_file, configuration.key_file = str(certificate), str(key)
        return configuration

    def certificate(self, user: str, groups=()) -> tuple[Path, Path]:
        """Files with a certificate that makes one this user of these groups, and its key."""
        return self._authority.user(user, groups)

    def _token_of(self, user: str) -> str | None:
        if user.startswith("system:serviceaccount:"):
            return self.token(*user.split(":")[2:])
        return self._tokens.get(user)

    def client(self, user: str = ADMIN, groups=()) -> k8s.ApiClient:
        """A client for this user; asked for again, the same one. It is closed with the control plane."""
        key = (user, *groups)
        if key not in self._clients:
            self._clients[key] = k8s.ApiClient(self.config_for(user, groups))
        return self._clients[key]

    @property
    def core(self) -> k8s.CoreV1Api:
        """What the administrator may do: everything."""
        return k8s.CoreV1Api(self.client())

    def token(self, namespace: str, name: str, audience: str | None = None, pod=None, seconds: int = 3600) -> str:
        """A token of this service account by TokenRequest; `pod` (an object) binds it to that pod."""
        bound = None
        if pod is not None:
            bound = {"kind": "Pod", "apiVersion": "v1", "name": pod.metadata.name, "uid": pod.metadata.uid}
        spec = {"audiences": [audience] if audience else [], "expirationSeconds": seconds, "boundObjectRef": bound}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return self.core.create_namespaced_service_account_token(name, namespace, request).status.token

    def kubeconfig(self, user: str = ADMIN, groups=(), token_file: Path | None = None) -> Path:
        """A new kubeconfig file for this user; with `token_file`, for the token that is in that file."""
        if token_file is not None:
            who = {"tokenFile": str(token_file)}
        elif token := self._token_of(user):
            who = {"token": token}
        else:
            certificate, key = self.certificate(user, groups)
            who = {"client-certificate": str(certificate), "client-key": str(key)}
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "tests", "user": who}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
            "current-context": "tests",
        }
        path = self.folder / f"kubeconfig-{secrets.token_hex(4)}"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content))
        return path

    # --- what was asked ----------------------------------------------------------------------------------------

    def mark(self) -> int:
        """A point in the history of requests, for `requests`."""
        return self.audit_log.stat().st_size

    def requests(self, since: int = 0, **wanted) -> list[Request]:
        """Requests since that mark whose fields have these values: `requests(mark, user=..., verb="list")`."""
        seen, found = set(), []
        with self.audit_log.open() as log:
            log.seek(since)
            for line in log:
                event = json.loads(line)
                if event["auditID"] not in seen:  # a watch has two events: its beginning and its end
                    seen.add(event["auditID"])
                    found.append(_request(event))
        return [request for request in found if all(getattr(request, name) == wanted[name] for name in wanted)]


def _request(event) -> Request:
    about = event.get("objectRef") or {}
    parts = (about.get("resource"), about.get("subresource"))
    return Request(
        user=event["user"].get("username", ""),
        verb=event["verb"],
        resource="/".join(part for part in parts if part),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        status=event.get("responseStatus", {}).get("code", 0),
        agent=event.get("userAgent", ""),
    )


def _close(client: k8s.ApiClient) -> None:
    client.rest_client.pool_manager.clear()
    client.close()
