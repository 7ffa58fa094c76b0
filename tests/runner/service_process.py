"""A service that takes pieces of output, as a process of its own: `service_process.py PORT FILE`.

It keeps what it takes in FILE, one piece a line, and says where it listens on its first line of output. Killed and
started again, it goes on with what FILE holds.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    """A handler of the two routes that a runner uses."""

    file: Path
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != "token secret-of-the-job":
            self._answer(401, {"code": "no_token", "message": "Who are you?", "field": None})
        elif self.path.endswith("/api/v1/jobs/job-1/outputs"):
            self._answer(200, {"last_seq": self._take(body["events"])})
        elif self.path.endswith("/api/v1/jobs/job-1/heartbeat"):
            with self.file.with_suffix(".beats").open("a") as beats:
                beats.write(json.dumps(body) + "\n")
            self._answer(204, None)
        else:
            self._answer(404, {"code": "not_found", "message": f"There is no {self.path}.", "field": None})

    def _take(self, events: list[dict]) -> int:
        """Keep each piece that follows the last one; pass over those known; stop at a gap."""
        with self.server.lock, self.file.open("a+") as kept:  # type: ignore[attr-defined]
            kept.seek(0)
            last = sum(1 for _ in kept)
            for event in events:
                if event["seq"] == last + 1:
                    kept.write(json.dumps(event) + "\n")
                    last += 1
            return last

    def _answer(self, status: int, content: object) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def main() -> None:
    import threading

    Handler.file = Path(sys.argv[2])
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.lock = threading.Lock()  # type: ignore[attr-defined]
    print(server.server_address[1], flush=True)
    server.serve_forever()


main()
