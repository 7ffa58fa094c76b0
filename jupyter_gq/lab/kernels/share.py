"""The GPU share of this server as the service tells it, and the notice by which kernels know that it is lent.

Rules
-----
- Lent: while the service says that the share is suspended or comes back, there is a notice. Kernels of ours let a cell
  wait as long as it is there (see `notebook/share_wait.py`).
- Unknown is not lent: before the first word of the service there is no notice, so cells run at once.
- Last word: if the service is lost, its last word counts, and the notice says that the service cannot be reached.
- Wanted: a kernel that waits asks for the share again and again. The share is wanted until `WANTED_SECONDS` after the
  last request, or while any other kernel has served one request for a second: it may wait in the driver.
- Clock: times are those of the monotonic clock, which the server and its kernels share.

See docs/decisions/0123-a-cell-waits-in-the-kernel.md.
"""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.domain.json_types import JsonMapping

from .watch import KernelState

#: Phases of a notebook whose share is lent, as the service names them.
_LENT_PHASES = frozenset({"suspended", "resuming"})
#: Seconds for which the request of a kernel that waits counts; the kernel asks every two seconds.
WANTED_SECONDS = 10.0
#: Seconds that the service may take to hear of such a request. A kernel waits for five, and then blames the server.
WANT_SECONDS = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareState:
    """The share of this server, as far as kernels need to know it."""

    #: Whether the share is suspended or on its way back.
    lent: bool = False
    #: For whom and why the share is lent, or how it comes back, in sentences for the user.
    sentence: str = ""
    #: When the share is probably back, by the monotonic clock; None = unknown.
    ready_at: float | None = None


def read_share(notebook: JsonMapping, now: float) -> ShareState:
    """Return the state of the share in the service's view of a notebook (`client.models.NotebookView`) at `now`."""
    suspension = notebook.get("suspension") or {}
    if notebook.get("phase") not in _LENT_PHASES:
        return ShareState()
    seconds = suspension.get("back_within")
    # Not the sentence of the suspension: once a cell waits, the notebook's own says that the borrower makes room.
    sentence = str(notebook.get("sentence", ""))
    return ShareState(lent=True, sentence=sentence, ready_at=None if seconds is None else now + float(seconds))


class ShareNotice:
    """The state of this server's share, and the file that tells it to the kernels."""

    def __init__(self, file: Path, *, server: str, timeout: float) -> None:
        """Begin without a notice in `file`. `server` is the name of this server.

        `timeout`: seconds after which a cell gives up its wait.
        """
        self._file, self._server, self._timeout = file, server, timeout
        self._asked_at = float("-inf")
        self._reachable = True
        self._written = ""
        self.state = ShareState()

    def note_notebook(self, notebook: JsonMapping, now: float) -> None:
        """Record the service's view of a notebook; a view of another server changes nothing."""
        if notebook.get("server") != self._server:
            return
        state = read_share(notebook, now)
        known = self.state
        if (state.lent, state.sentence) != (known.lent, known.sentence):
            self.state = state
            self._write()

    def note_notebooks(self, notebooks: Iterable[JsonMapping], now: float) -> None:
        """Record all notebooks that run or wait; without a notebook of this server, no share is lent."""
        own = [notebook for notebook in notebooks if notebook.get("server") == self._server]
        self.note_notebook(own[0] if own else {"server": self._server}, now)

    def note_connection(self, reachable: bool) -> None:
        """Record whether the service can be reached, so that cells that wait say so."""
        self._reachable = reachable
        self._write()

    def ask(self, now: float) -> None:
        """Record the request of a kernel in which a cell waits."""
        self._asked_at = now

    def is_wanted(self, kernels: Iterable[KernelState], now: float) -> bool:
        """Return whether the share is lent and a cell waits for it, or another request probably does."""
        if not self.state.lent:
            return False
        return now - self._asked_at <= WANTED_SECONDS or any(kernel.needs_share for kernel in kernels)

    def _write(self) -> None:
        """Write the notice, or remove it; kernels see the old or the new one, and never a part."""
        if not self.state.lent:
            self._written = ""
            self._file.unlink(missing_ok=True)
            return
        text = json.dumps(
            {
                "sentence": self.state.sentence,
                "back_at": self.state.ready_at,
                "timeout": self._timeout,
                "reachable": self._reachable,
            }
        )
        if text != self._written:
            draft = self._file.with_name(f"{self._file.name}.new")
            # The folder goes with the server; without it no kernel is left that could wait.
            with suppress(FileNotFoundError):
                draft.write_text(text, encoding="utf-8")
                os.replace(draft, self._file)
                self._written = text
