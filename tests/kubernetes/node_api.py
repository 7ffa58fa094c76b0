"""What a kubelet says to the API server, in plain JSON: a pod is a dictionary, as it came."""

import json
import threading

import urllib3

from tests.kubernetes.control_plane import ControlPlane

#: So often the answer "forbidden" is taken for one that will change: after its start the server learns the rights.
_FORBIDDEN = 25
_STRATEGIC = "application/strategic-merge-patch+json"


class Stopped(Exception):
    """The kubelet that asked has been killed."""


class Refused(Exception):
    """The API server has answered with an error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class NodeApi:
    """The API as the user of this node, with its rights and no others.

    Every call waits while the kubelet hangs (`gate` is not set), and raises `Stopped` once it has been killed.
    """

    def __init__(self, plane: ControlPlane, node: str) -> None:
        self.gate, self.stopped = threading.Event(), threading.Event()
        self.gate.set()
        certificate, key = plane.certificate(f"system:node:{node}", ("system:nodes",))
        self._url = plane.url
        self._pool = urllib3.PoolManager(
            ca_certs=str(plane.ca_file), cert_file=str(certificate), key_file=str(key), maxsize=16, retries=False
        )

    def close(self) -> None:
        """Whoever waits for an answer or at the gate gets `Stopped`."""
        self.stopped.set()
        self.gate.set()
        self._pool.clear()

    def ask(self, method: str, path: str, body=None, **query):
        """One request; raises `Refused`, or one of urllib3's errors when the server is away."""
        return json.loads(self._request(method, path, body, query, 10.0).data)

    def insist(self, method: str, path: str, body=None, **query):
        """`ask` until the server has an answer: it may be away, or not know for a moment what this node may see."""
        forbidden = 0
        while True:
            try:
                return self.ask(method, path, body, **query)
            except urllib3.exceptions.HTTPError:
                pass
            except Refused as refused:
                forbidden += refused.status in (401, 403)
                if refused.status not in (401, 403, 429, 500, 503, 504) or forbidden > _FORBIDDEN:
                    raise
            self.wait(0.2)

    def wait(self, seconds: float) -> None:
        """Let some time pass; raises `Stopped`."""
        if self.stopped.wait(seconds):
            raise Stopped

    def watch(self, path: str, **query):
        """The answer to a watch: read it line by line; `shutdown` ends that from another thread."""
        return self._request("GET", path, None, query | {"watch": "1"}, 400.0, stream=True)

    def _request(self, method, path, body, query, patience, *, stream=False):
        self.gate.wait()
        if self.stopped.is_set():
            raise Stopped
        kind = _STRATEGIC if method == "PATCH" else "application/json"
        answer = self._pool.request(
            method,
            f"{self._url}{path}",
            fields=query or None,
            body=None if body is None else json.dumps(body),
            headers={"Content-Type": kind, "Accept": "application/json", "User-Agent": "kubelet-of-the-tests"},
            preload_content=not stream,
            timeout=urllib3.Timeout(connect=3.0, read=patience),
        )
        if answer.status >= 300:
            text = answer.data.decode(errors="replace")
            answer.release_conn()
            raise Refused(answer.status, text)
        return answer
