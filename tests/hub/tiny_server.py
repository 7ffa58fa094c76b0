"""Stands in for a notebook server: answers the Hub's questions and tells its environment. Starts in a moment."""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

try:
    from jupyterhub import __version__
except ImportError:  # an interpreter that every user can run has no JupyterHub
    __version__ = ""


class Handler(BaseHTTPRequestHandler):
    """Every path is good; `.../env` gives environment, arguments and pid."""

    def do_GET(self):
        told = {"environment": dict(os.environ), "arguments": sys.argv[1:], "pid": os.getpid()}
        body = json.dumps(told if self.path.endswith("/env") else {"version": "tiny"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-JupyterHub-Version", __version__)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Says nothing."""


if __name__ == "__main__":
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: os._exit(0))
    address = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    ThreadingHTTPServer((address.hostname, address.port), Handler).serve_forever()
