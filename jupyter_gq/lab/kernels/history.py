"""The history of one kernel, folded from the messages that it publishes. Pure: messages in, history out.

Rules
-----
- Cells: a cell enters the history with `execute_input`; its duration is known once its request is idle again. The
  kernel's own times are used.
- Unstored requests: silent requests publish no `execute_input` and leave no trace. Requests that are not stored
  (variable inspectors, `store_history: false`) repeat the execution count of the next request: the later entry replaces
  the earlier one.
- Busy: a kernel is busy if a request that runs code (a cell, a widget's message) has begun and not ended, even if it is
  silent. Cells of one (sub)shell run one after another, so a new cell ends an open request there whose end was lost. A
  widget's message may be served inside a cell, and ends only itself.
- Polling: pages ask about variables by short silent requests, for hours if nobody is there. So a silent request counts
  only from `SILENT_SECONDS` on; it is no use if it ends before. A cell and a message of a widget always count.
- No use: connections, completions, inspections and polling are no use of a kernel.
- Clock: times are those of the wall clock. If it is set, or the machine sleeps, those of the last use and of open
  requests are moved along.
- Need of the share: while the share of the server is lent, any request but a question about the kernel itself may wait
  in the driver. One that is open for `NEED_SECONDS` probably does.
- Failed: a cell failed if an error was published for it. For a magic that is not there or is used wrongly, IPython
  publishes none: it writes a line with `UsageError` to the error stream.
- New history: a restart begins a new history, and so does an execution count that decreases.
- Announcements: kernels do not tell to which cell of a notebook an execution belongs, so the page announces each cell
  that it runs. An execution belongs to the first announced cell with its code that no earlier execution took.
- Complete: a history is complete if its counts are 1, 2, 3 and so on. An empty one is complete if the record began with
  the kernel.
- Questions: a kernel announces its start only once, often before anybody listens. A kernel that was never heard may be
  asked on its main shell, where the question waits in line like a cell. Once the question is served, the record is
  complete. An answer ends no request: code that serves requests while it runs (`jupyter_ui_poll`) answers too.

See docs/decisions/0113-announce-cells-and-judge-them-on-the-server.md.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from jupyter_gq.domain.json_types import JsonMapping

#: Requests that run the user's code.
CODE_REQUESTS = frozenset({"execute_request", "comm_open", "comm_msg", "comm_close"})
#: Requests that may use variables on a device, although they run no code of the user.
INTROSPECTION = frozenset({"complete_request", "inspect_request"})
#: Seconds from which a silent request counts as use of the kernel.
SILENT_SECONDS = 5.0
#: Seconds after which an open request probably waits for a lent share.
NEED_SECONDS = 1.0
#: Types of messages that `KernelRecord.apply` uses; other messages need not be decoded.
NEEDED_MESSAGES = frozenset({"status", "execute_input", "error"})
#: The beginning of the line for a wrong use of a magic; messages of the type "stream" without it need not be decoded.
USAGE_ERROR = "UsageError: "


@dataclass(frozen=True, kw_only=True, slots=True)
class RanCell:
    """An execution in the present session of a kernel."""

    #: Source as it was run.
    code: str
    execution_count: int
    #: Duration; None while the cell runs, or if its end was not seen.
    seconds: float | None = None
    #: Whether the cell ended with an error.
    failed: bool = False
    #: Id of the notebook's cell; empty for code that no page has announced, such as that of a console.
    cell_id: str = ""
    #: When it began, in seconds since the epoch.
    began: float = field(default=0.0, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelHistory:
    """The answer of GET kernels/<id>/history: the executions in the present session of a kernel, in run order."""

    cells: tuple[RanCell, ...]
    #: Whether every execution of the session is known. If so and there is no cell, nothing has run in the kernel.
    complete: bool


@dataclass(kw_only=True, slots=True)
class _Open:
    """A request that has begun and not ended."""

    #: When it began.
    at: float
    #: Whether it counts as use from its beginning: a cell, or a message of a widget.
    counts: bool

    def is_use(self, until: float) -> bool:
        """Return whether the request, which is open from `at` until `until`, is use of the kernel."""
        return self.counts or until - self.at >= SILENT_SECONDS


#: Most announced cells that are kept for one kernel.
MOST_ANNOUNCED = 10_000


class KernelRecord:
    """The history and state of one kernel from the time `since`: its start, or when this server began to listen."""

    def __init__(self, since: float, *, from_start: bool = False) -> None:
        self._cells: dict[str, RanCell] = {}  # by request, in order
        self._announced: deque[tuple[str, str]] = deque(maxlen=MOST_ANNOUNCED)  # cell id and code, in run order
        self._from_start = from_start
        self._open: dict[str, dict[str, _Open]] = {}  # by (sub)shell, then by request
        self._introspection: tuple[str, float] | None = None  # the newest open one, and when it began
        #: End of the last use, or the start of the kernel.
        self.last_active = since
        #: Whether busy or idle is certain: the kernel was heard to start, to begin or end code, or to answer.
        self.is_known = False
        self._question = ""

    @property
    def cells(self) -> tuple[RanCell, ...]:
        """The executions in order, the running one last."""
        return tuple(self._cells.values())

    @property
    def history(self) -> KernelHistory:
        """The executions with the ids of their cells, and whether none is missing."""
        ahead = list(self._announced)
        cells = []
        for cell in self.cells:
            taken = next((said for said in ahead if said[1] == cell.code), None)
            if taken is not None:
                ahead.remove(taken)
                cell = replace(cell, cell_id=taken[0])
            cells.append(cell)
        counted = [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
        return KernelHistory(cells=tuple(cells), complete=counted and (bool(cells) or self._from_start))

    def note_cell(self, cell_id: str, code: str) -> None:
        """Record that a page hands the cell with this id and code to the kernel."""
        self._announced.append((cell_id, code))

    def is_busy(self, now: float) -> bool:
        """Return whether a request that runs code has begun and not ended; a silent one counts after a while only."""
        return any(each.is_use(now) for each in self._list_open())

    def needs_share(self, now: float) -> bool:
        """Return whether a request has been open for so long that it probably waits for a lent share."""
        begun = [each.at for each in self._list_open()]
        if self._introspection is not None:
            begun.append(self._introspection[1])
        return any(now - at >= NEED_SECONDS for at in begun)

    def _list_open(self) -> list[_Open]:
        return [each for opened in self._open.values() for each in opened.values()]

    def move(self, seconds: float, now: float) -> None:
        """Move the times of the last use and of open requests by so many seconds, after the wall clock was set.

        No time is later than `now` afterwards: a message may have come since then.
        """
        self.last_active = min(now, self.last_active + seconds)
        for each in self._list_open():
            each.at = min(now, each.at + seconds)
        if self._introspection is not None:
            request, began = self._introspection
            self._introspection = (request, min(now, began + seconds))

    def note_start(self) -> None:
        """Record that the kernel has just started, so that nothing can have run before."""
        self._from_start = True

    def note_restart(self, at: float) -> None:
        """Begin a new history at the time `at`, with an unknown state: a new process has replaced the old one."""
        self._cells.clear()
        self._announced.clear()
        self._from_start = True
        self._open.clear()
        self._introspection = None
        self.last_active = at
        self.is_known = False
        self._question = ""

    def note_question(self, question: str) -> None:
        """Record a question that was sent on the kernel's main shell, by its message id; only the newest counts."""
        self._question = question

    def apply(self, message: JsonMapping) -> None:
        """Update history and state with one decoded message of the kernel; messages must come in order of publication.

        A message that belongs to no code request changes only whether the kernel's state is known.
        """
        parent = message.get("parent_header") or {}
        request = parent.get("msg_id")
        if not request or parent.get("msg_type") not in CODE_REQUESTS:
            state = message["content"].get("execution_state")
            if request and parent.get("msg_type") in INTROSPECTION:
                began = _read_date(message["header"].get("date"), self.last_active)
                self._introspection = (request, began) if state == "busy" else None
            answered = state == "idle" and bool(request) and request == self._question
            self.is_known = self.is_known or answered or state == "starting"
            return
        self.is_known = True
        shell = str(parent.get("subshell_id") or "")
        at = _read_date(message["header"].get("date"), self.last_active)
        content = message["content"]
        match message["header"]["msg_type"]:
            case "status" if content.get("execution_state") == "busy":
                self._begin(shell, request, parent["msg_type"], at)
            case "status" if content.get("execution_state") == "idle":
                self._end(shell, request, at)
            case "execute_input":
                self._begin(shell, request, parent["msg_type"], at)
                self._open[shell][request].counts = True
                self._begin_cell(request, content, at)
            case kind if _tells_failure(kind, content):
                self._update_cell(request, lambda cell: replace(cell, failed=True))

    def _begin(self, shell: str, request: str, kind: str, at: float) -> None:
        opened = self._open.setdefault(shell, {})
        if kind == "execute_request" and request not in opened:
            opened.clear()
            self._introspection = None
        opened.setdefault(request, _Open(at=at, counts=kind != "execute_request"))

    def _begin_cell(self, request: str, content: JsonMapping, at: float) -> None:
        """Add an execution to the history; an entry with the same execution count is replaced.

        If the execution count has decreased, the history is cleared first.
        """
        count = int(content.get("execution_count") or 0)
        if self._cells:
            last, cell = next(reversed(self._cells.items()))
            if count < cell.execution_count:
                self._cells.clear()
                self._from_start = False
            elif count == cell.execution_count:
                del self._cells[last]
        self._cells[request] = RanCell(code=str(content.get("code", "")), execution_count=count, began=at)

    def _end(self, shell: str, request: str, at: float) -> None:
        begun = self._open.get(shell, {}).pop(request, None)
        if begun is not None and begun.is_use(at):
            self.last_active = max(self.last_active, at)
            seconds = max(0.0, at - begun.at)
            self._update_cell(request, lambda cell: replace(cell, seconds=seconds))

    def _update_cell(self, request: str, change: Callable[[RanCell], RanCell]) -> None:
        if request in self._cells:
            self._cells[request] = change(self._cells[request])


def _tells_failure(kind: str, content: JsonMapping) -> bool:
    """Return whether a message is an error, or a piece of the error stream with the line for a wrong use of a magic."""
    if kind == "stream":
        return content.get("name") == "stderr" and f"\n{USAGE_ERROR}" in f"\n{content.get('text')}"
    return kind == "error"


def _read_date(date: object, default: float) -> float:
    """Return the date of a message in seconds, or `default`: some kernels leave it out or write malformed text."""
    if isinstance(date, str):
        try:
            date = datetime.fromisoformat(date)
        except ValueError:
            return default
    return date.timestamp() if isinstance(date, datetime) and date.tzinfo is not None else default
