"""The door to the Kubernetes client: plain JSON in and out, a timeout for every call, calls in threads.

No other module imports the client; an import contract checks it. The client's own classes for pods are not used: making
them for thousands of pods takes longer than everything else. The client provides the configuration (in the cluster, or
a kubeconfig), the credentials and the connections.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import urllib3
from kubernetes import client, config

from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.json_types import JsonObject

from .errors import ClusterError, Missing, Unreachable, error_of
from .resources import EVENTS, JOBS, LEASES, REVIEWS, ApiResource
from .token_review import pod_of

#: Objects on a page of a list.
_PAGE = 500
#: The most watches that are open beside the calls.
_WATCHES = 8
#: The server sends a bookmark about every minute; a connection that is silent for longer is dead.
_SILENCE = 150.0


class Stream:
    """An open watch, which yields its events as objects until it ends."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response

    def batches(self) -> Iterator[list[JsonObject]]:
        """Yield events as they come, events that came together in one list.

        The iteration ends when the server ends the watch or is silent for too long. A broken watch raises
        `Unreachable`.
        """
        left = b""
        try:
            for chunk in self._response.stream(amt=2**16, decode_content=True):
                *lines, left = (left + chunk).split(b"\n")
                events = [dict(json.loads(line)) for line in lines if line.strip()]
                if events:
                    yield events
        except (urllib3.exceptions.ReadTimeoutError, TimeoutError):
            # Silent for too long: a new connection goes on where this one was.
            return
        except (urllib3.exceptions.HTTPError, OSError, ValueError, TypeError) as error:
            raise Unreachable(f"The watch broke off: {error}.") from error
        finally:
            self._response.close()

    def end(self) -> None:
        """Make `batches` end, from another thread."""
        try:
            self._response.shutdown()
        except (OSError, ValueError, RuntimeError):
            self._response.close()


class Cluster:
    """The client of one API server.

    Calls raise `ClusterError`, or the subclass of it that a method names, if the API server did not do what was asked.
    """

    def __init__(
        self,
        api: client.ApiClient,
        *,
        timeout: float = 10.0,
        silence: float = _SILENCE,
        workers: int = 20,
        page: int = _PAGE,
    ) -> None:
        """Create a client from a configured one of the Kubernetes package.

        `timeout` is the seconds for each call, `silence` the seconds that a watch may be silent. `workers` is the
        number of calls at one time, `page` the number of objects on a page of a list.
        """
        self._api, self._timeout, self._silence, self._page = api, timeout, silence, page
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="kubernetes")
        #: How many requests were sent, by verb.
        self.requests: Counter[str] = Counter()

    @classmethod
    def open(
        cls, *, kubeconfig: str = "", timeout: float = 10.0, workers: int = 20, agent: str = "jupyter-gq"
    ) -> "Cluster":
        """Return a client for that kubeconfig; "" = with the service account of this process's pod.

        Raises `BackendError` with a sentence if there is no such configuration.
        """
        settings = client.Configuration()
        try:
            if kubeconfig:
                config.load_kube_config(  # type: ignore[no-untyped-call]
                    config_file=str(Path(kubeconfig).expanduser()), client_configuration=settings
                )
            else:
                config.load_incluster_config(  # type: ignore[no-untyped-call]
                    client_configuration=settings
                )
        except (config.ConfigException, OSError) as error:
            place = f"the kubeconfig {kubeconfig}" if kubeconfig else "the service account of this pod"
            fix = "Run the service in a pod, or set c.KubernetesBackend.kubeconfig."
            raise BackendError(f"There is no way to the cluster by {place}: {error}. {fix}") from error
        return cls.of(settings, timeout=timeout, workers=workers, agent=agent)

    @classmethod
    def of(
        cls,
        settings: client.Configuration,
        *,
        timeout: float = 10.0,
        silence: float = _SILENCE,
        workers: int = 20,
        page: int = _PAGE,
        agent: str = "jupyter-gq",
    ) -> "Cluster":
        """Return a client with this configuration, which never repeats a request; `agent` is its user agent.

        For the other arguments see `Cluster`.
        """
        settings.connection_pool_maxsize = workers + _WATCHES
        # The callers know which requests may be sent twice.
        settings.retries = False
        api = client.ApiClient(settings)
        api.user_agent = agent
        return cls(api, timeout=timeout, silence=silence, workers=workers, page=page)

    def close(self) -> None:
        """Close the connections; calls under way end by their timeout."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._api.rest_client.pool_manager.clear()

    # --- for the loop: each call in a thread

    async def create(self, resource: ApiResource, body: JsonObject) -> JsonObject:
        """Create an object and return it as the cluster has it; raises `Exists` if there is one of that name."""
        meta = body["metadata"]
        what = f"create the {resource.noun} {meta['name']}"
        path = resource.path(meta.get("namespace", ""))
        return await self._in_thread(lambda: self._call("POST", path, what, body=body))

    async def get(self, resource: ApiResource, namespace: str, name: str) -> JsonObject | None:
        """Return an object; None if there is none of that name."""
        what = f"show the {resource.noun} {name}"
        try:
            return await self._in_thread(lambda: self._call("GET", resource.path(namespace, name), what))
        except Missing:
            return None

    async def patch(self, resource: ApiResource, namespace: str, name: str, body: JsonObject) -> JsonObject:
        """Merge `body` into an object, by the rules of a JSON merge patch, and return the object as it is then."""
        what = f"change the {resource.noun} {name}"
        path = resource.path(namespace, name)
        return await self._in_thread(lambda: self._call("PATCH", path, what, body=body))

    async def delete(
        self, resource: ApiResource, namespace: str, name: str, *, uid: str = "", grace: int | None = None
    ) -> None:
        """Delete an object with that grace in seconds; no error if it is gone. The pods of a deleted Job stay.

        If `uid` is given, only that very object is deleted. A grace of 0 would make the API server forget a pod that
        still runs, so at least 1 is asked for.
        """
        # Pods of a Job are ended by us, each with its own grace, and not by the collector of garbage.
        policy = "Orphan" if resource is JOBS else "Background"
        options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace is not None:
            options["gracePeriodSeconds"] = max(1, grace)
        what = f"delete the {resource.noun} {name}"
        path = resource.path(namespace, name)
        try:
            await self._in_thread(lambda: self._call("DELETE", path, what, body=options))
        except Missing:
            return
        except ClusterError as error:
            # The precondition failed: another object has the name now, so ours is gone.
            if error.status != 409:
                raise

    async def failed_creates(self, namespace: str, job: str) -> list[JsonObject]:
        """Return the events that say why a Job makes no pod, newest last."""
        fields = {"involvedObject.kind": "Job", "involvedObject.name": job, "reason": "FailedCreate"}
        query = {"fieldSelector": ",".join(f"{key}={value}" for key, value in fields.items()), "limit": str(_PAGE)}
        what = f"list the events of the Job {job}"
        page = await self._in_thread(lambda: self._call("GET", EVENTS.path(namespace), what, query=query))
        return sorted(page.get("items") or [], key=lambda event: int(event["metadata"]["resourceVersion"]))

    async def read_lease(self, namespace: str, name: str) -> JsonObject | None:
        """Return a Lease; None if there is none."""
        return await self.get(LEASES, namespace, name)

    async def create_lease(self, body: JsonObject) -> JsonObject:
        """Create a Lease and return it; raises `Exists` if there is one."""
        return await self.create(LEASES, body)

    async def replace_lease(self, body: JsonObject) -> JsonObject:
        """Replace a Lease and return it; raises `Unreachable` if the version that the body names is not the newest."""
        meta = body["metadata"]
        path, what = LEASES.path(meta["namespace"], meta["name"]), f"renew the lease {meta['name']}"
        return await self._in_thread(lambda: self._call("PUT", path, what, body=body))

    async def review_token(self, token: str, audience: str) -> PodIdentity | None:
        """Return the pod that a token belongs to; None if it is nobody's, expired, or for another audience."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": token, "audiences": [audience]},
        }
        answer = await self._in_thread(lambda: self._call("POST", REVIEWS.path(), "check a token", body=body))
        return pod_of(answer.get("status") or {}, token, audience)

    async def _in_thread(self, call: Callable[[], JsonObject]) -> JsonObject:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    # --- for threads

    def pages(
        self, resource: ApiResource, namespace: str, query: Mapping[str, str]
    ) -> Iterator[tuple[list[JsonObject], str]]:
        """Yield all present objects page by page, each page with the version of the list.

        Raises `ClusterError` if a page cannot be read.
        """
        following = ""
        what = f"list the {resource.plural}"
        while True:
            asked = {**query, "limit": str(self._page), **({"continue": following} if following else {})}
            page = self._call("GET", resource.path(namespace), what, query=asked)
            meta = page.get("metadata") or {}
            yield page.get("items") or [], str(meta.get("resourceVersion", ""))
            following = meta.get("continue") or ""
            if not following:
                return

    def watch(
        self, resource: ApiResource, namespace: str, query: Mapping[str, str], version: str, seconds: int
    ) -> Stream:
        """Open a watch on changes after `version`, for at most `seconds`; its stream has bookmarks too.

        Raises `ClusterError` if the watch is refused.
        """
        asked = {
            **query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        what = f"watch the {resource.plural}"
        response = self._send("WATCH", resource.path(namespace), what, query=asked)
        if response.status != 200:
            raise error_of(response.status, _body(response), what)
        return Stream(response)

    def _call(
        self, verb: str, path: str, what: str, *, query: Mapping[str, str] | None = None, body: JsonObject | None = None
    ) -> JsonObject:
        response = self._send(verb, path, what, query=query, body=body)
        content = _body(response)
        if not 200 <= response.status < 300:
            raise error_of(response.status, content, what)
        try:
            return dict(json.loads(content))
        except (ValueError, TypeError) as error:
            raise Unreachable(f"The cluster did not {what}: its answer was no JSON.") from error

    def _send(
        self, verb: str, path: str, what: str, *, query: Mapping[str, str] | None = None, body: JsonObject | None = None
    ) -> urllib3.BaseHTTPResponse:
        self.requests[verb] += 1
        settings = self._api.configuration
        url = settings.host.rstrip("/") + path + (f"?{urlencode(query)}" if query else "")
        headers = {**self._api.default_headers, "Accept": "application/json", **self._credentials()}
        read = self._silence if verb == "WATCH" else self._timeout
        content = None
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json" if verb == "PATCH" else "application/json"
            content = json.dumps(body).encode()
        try:
            return self._api.rest_client.pool_manager.request(
                "GET" if verb == "WATCH" else verb,
                url,
                body=content,
                headers=headers,
                timeout=urllib3.Timeout(connect=self._timeout, read=read),
                preload_content=False,
                retries=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"The API server cannot be reached: {_short(error)}.") from error

    def _credentials(self) -> dict[str, str]:
        """Return the headers that identify this service; raise `Unreachable` if its credentials cannot be read.

        The client reads the token's file again now and then.
        """
        try:
            auths = self._api.configuration.auth_settings().values()
        except (config.ConfigException, OSError) as error:
            raise Unreachable(f"The service's credentials for the cluster cannot be read: {error}") from error
        return {auth["key"]: auth["value"] for auth in auths if auth["in"] == "header" and auth["value"]}


def _body(response: urllib3.BaseHTTPResponse) -> bytes:
    try:
        return response.read() or b""
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise Unreachable(f"The API server broke off its answer: {_short(error)}.") from error
    finally:
        response.release_conn()


def _short(error: BaseException) -> str:
    """Return the error's text without the address of the Python object that the client puts in front."""
    text = str(error)
    return text.split(">: ", 1)[-1] or type(error).__name__
