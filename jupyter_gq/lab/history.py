"""What one kernel ran, folded from the messages that it publishes. Pure: messages in, history out.

Rules:

1. A cell enters the history with `execute_input`; its duration is known once its request is idle again. Both
   times are the kernel's own.
2. Silent requests publish no `execute_input` and leave no trace. Requests that are not stored (variable
   inspectors, `store_history: false`) repeat the execution count of the next one: the later entry replaces the
   earlier one.
3. Busy means that a request which runs code (a cell, a widget's message) was begun and not ended, however
   silent it is. Cells of one (sub)shell run one after another, so a new one ends whatever was open there and whose
   end was lost on the way; a widget's message may be served inside a cell, and ends nothing but itself.
4. Connections, completions, inspections and polling are no use of a kernel.
5. A restart begins a new history. So does an execution count that goes down.
6. A kernel says only once that it starts, often before anybody listens. So one that was never heard may be asked, on
   its main shell, where the question waits in line like a cell: once that is served, what was heard is all there is.
   An answer ends nothing: code that serves requests while it runs (`jupyter_ui_poll`) answers too.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from jupyter_gq.domain.json_types import JsonMapping

#: Requests that run the user's code.
RUNS_CODE = frozenset({"execute_request", "comm_open", "comm_msg", "comm_close"})
#: Messages that `KernelRecord.apply` looks at; others need not be decoded at all.
OF_INTEREST = frozenset({"status", "execute_input", "error"})


@dataclass(frozen=True, kw_only=True, slots=True)
class RanCell:
    """One execution in the present session of a kernel."""

    #: Source as it was run.
    code: str
    execution_count: int
    #: Duration; None while it runs, or when its end was not seen.
    seconds: float | None = None
    #: It ended with an error.
    failed: bool = False


class KernelRecord:
    """The history and state of one kernel, from `since` (its start, or when we began to listen)."""

    def __init__(self, since: float) -> None:
        self._cells: dict[str, RanCell] = {}  # by request, in order
        self._open: dict[str, dict[str, float]] = {}  # by (sub)shell: request -> when it began
        #: End of the last use, or the start.
        self.last_active = since
        #: We heard it start, begin or end code, or answer: what this record says of busy and idle is knowledge.
        self.heard = False
        self._question = ""

    @property
    def cells(self) -> tuple[RanCell, ...]:
        """Executions in order, the running one last."""
        return tuple(self._cells.values())

    @property
    def busy(self) -> bool:
        """Code runs now."""
        return any(self._open.values())

    def restarted(self, at: float) -> None:
        """A new process took the place of the old one: nothing of before is in its memory."""
        self._cells.clear()
        self._open.clear()
        self.last_active = at
        self.heard = False
        self._question = ""

    def asked(self, question: str) -> None:
        """This request was sent on the kernel's main shell; only the newest counts."""
        self._question = question

    def apply(self, message: JsonMapping) -> None:
        """Take one published message, decoded, in the order of publication."""
        parent = message.get("parent_header") or {}
        request = parent.get("msg_id")
        if not request or parent.get("msg_type") not in RUNS_CODE:
            state = message["content"].get("execution_state")
            answered = state == "idle" and bool(request) and request == self._question
            self.heard = self.heard or answered or state == "starting"
            return
        self.heard = True
        shell = str(parent.get("subshell_id") or "")
        at = _seconds(message["header"].get("date"), self.last_active)
        content = message["content"]
        match message["header"]["msg_type"]:
            case "status" if content.get("execution_state") == "busy":
                self._begin(shell, request, parent["msg_type"], at)
            case "status" if content.get("execution_state") == "idle":
                self._end(shell, request, at)
            case "execute_input":
                self._begin(shell, request, parent["msg_type"], at)
                self._begin_cell(request, content)
            case "error":
                self._change(request, lambda cell: replace(cell, failed=True))

    def _begin(self, shell: str, request: str, kind: str, at: float) -> None:
        opened = self._open.setdefault(shell, {})
        if kind == "execute_request" and request not in opened:
            opened.clear()
        opened.setdefault(request, at)

    def _begin_cell(self, request: str, content: JsonMapping) -> None:
        count = int(content.get("execution_count") or 0)
        if self._cells:
            last, cell = next(reversed(self._cells.items()))
            if count < cell.execution_count:
                self._cells.clear()
            elif count == cell.execution_count:
                del self._cells[last]
        self._cells[request] = RanCell(code=str(content.get("code", "")), execution_count=count)

    def _end(self, shell: str, request: str, at: float) -> None:
        begun = self._open.get(shell, {}).pop(request, None)
        if begun is not None:
            self.last_active = max(self.last_active, at)
            seconds = max(0.0, at - begun)
            self._change(request, lambda cell: replace(cell, seconds=seconds))

    def _change(self, request: str, change: Callable[[RanCell], RanCell]) -> None:
        if request in self._cells:
            self._cells[request] = change(self._cells[request])


def _seconds(date: object, default: float) -> float:
    """A message's date, which some kernels leave out or write as text that is no date."""
    if isinstance(date, str):
        try:
            date = datetime.fromisoformat(date)
        except ValueError:
            return default
    return date.timestamp() if isinstance(date, datetime) and date.tzinfo is not None else default
