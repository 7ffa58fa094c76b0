"""A PostgreSQL server of the tests' own: in a folder of its own, on a free port, ended with them.

It is not made to survive anything (no fsync), which makes it start in two seconds.
"""

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from tests.kept_logs import LOGS
from tests.patience import scaled, until
from tests.ports import claim_port

#: Where Debian puts the programs, which are not on the path there.
DEBIAN = Path("/usr/lib/postgresql")
#: Who it runs as when we are root, which it refuses to run as.
SYSTEM_USER = "postgres"
PASSWORD = "p@ss/word"
DEADLINE = 30

_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": 0,
    "shared_buffers": "16MB",
    "max_connections": 40,
    "autovacuum": "off",
    "listen_addresses": "127.0.0.1",
    "log_min_messages": "fatal",
}


def programs():
    """The folder with `initdb` and `postgres`; None when it is not installed."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return folders[-1].parent if folders else None


def programs_or_skip():
    """The same; without it the test is skipped, or fails where nothing may be skipped."""
    found = programs()
    if found is not None:
        return found
    missing = "PostgreSQL is not installed; 'make postgresql' installs it, or says how."
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


class PostgresServer:
    """One server. `start` and `stop` may be called again and again; what it stored stays until `remove`.

    After a `with` it is removed.
    """

    def __init__(self, programs, below=None):
        """`below`: the folder in which the server makes its own; default: that of temporary files."""
        self._programs, self._process = programs, None
        self._numbers = itertools.count(1)
        self.folder = Path(tempfile.mkdtemp(prefix="gq-pg-", dir=below))
        self.port = claim_port()
        self.own(self.folder)
        password = self.folder / "password"
        password.write_text(PASSWORD)
        self.own(password)
        # An order of letters that is not that of their bytes, as most databases have.
        self._run(
            "initdb", "-D", self.folder / "data", "-N", "-U", "gq", "-A", "trust", "--auth-host=scram-sha-256",
            "-E", "UTF8", "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US", "--pwfile", password,
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def start(self):
        """Start it and wait until it answers."""
        settings = {**_SETTINGS, "port": self.port, "unix_socket_directories": self.folder}
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        LOGS.add("postgresql", self.folder, "log")
        with open(self.folder / "log", "ab") as log:
            command = self._as_its_user("postgres", "-D", self.folder / "data", *arguments)
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)

        def answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            return self._answers()

        until(answers, "PostgreSQL has started", every=0.02)

    def start_again(self):
        """Start it if a test left it stopped, or if it has ended by itself."""
        if self._process is None or self._process.poll() is not None:
            self.start()

    def stop(self, how=signal.SIGQUIT):
        """End it: SIGQUIT as a crash would, SIGINT with a word to those who are connected."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(scaled(DEADLINE))
            self._process = None

    @contextlib.contextmanager
    def frozen(self, *backends):
        """It says nothing any more, as on a machine that hangs, until the end; with `backends` (pids), these only.

        What it is sent meanwhile lies in its buffers.
        """
        stopped = []
        try:
            for pid in backends or self._processes():
                os.kill(pid, signal.SIGSTOP)
                stopped.append(pid)
            yield
        finally:
            for pid in reversed(stopped):
                os.kill(pid, signal.SIGCONT)

    def _processes(self):
        """The postmaster, which could start others, then those that it has started."""
        first = self._process.pid
        yield first
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == first:
                    yield int(folder.name)

    def remove(self):
        """End it and forget everything."""
        self.stop()
        LOGS.release("postgresql", self.folder)
        shutil.rmtree(self.folder)

    def new_database(self, options=""):
        """The URL of an empty database."""
        name = f"gq{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} {options}")
        return self.url(name)

    def url(self, database):
        """By the socket, where no password is asked for."""
        return f"postgresql:///{database}?host={self.folder}&port={self.port}&user=gq"

    def tcp_url(self, database, user="gq", password=PASSWORD):
        """By the network, where one is."""
        return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def execute(self, statement):
        """What an administrator does."""
        with contextlib.closing(self._connect()) as connection:
            done = connection.execute(statement)
            return done.fetchall() if done.description else []

    def own(self, path):
        """Give a file or folder to the user that the server runs as."""
        if os.geteuid() == 0:
            user = pwd.getpwnam(SYSTEM_USER)
            os.chown(path, user.pw_uid, user.pw_gid)

    def _connect(self):
        return psycopg.connect(host=str(self.folder), port=self.port, user="gq", dbname="postgres", autocommit=True)

    def _answers(self):
        with contextlib.suppress(psycopg.OperationalError):
            self._connect().close()
            return True
        return False

    def _run(self, program, *arguments):
        command = self._as_its_user(program, *arguments)
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def _as_its_user(self, program, *arguments):
        command = [str(self._programs / program), *map(str, arguments)]
        if os.geteuid() != 0:
            return command
        return ["setpriv", f"--reuid={SYSTEM_USER}", f"--regid={SYSTEM_USER}", "--init-groups", *command]
