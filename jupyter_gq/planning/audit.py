"""`jupyter-gq audit`: print or export who did what and when."""

import argparse
import csv
import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TextIO

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.models import AuditEntryView
from jupyter_gq.client.plain_output import print_plain
from jupyter_gq.commands.connecting.connection import add_service_arguments, ask_service
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.domain.audit import Action
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.plain_text import quoted

_UNITS: Final = {"m": 60, "h": 3600, "d": 86_400}
_COLUMNS: Final = ("time", "actor", "action", "object", "owner", "details")
#: The filters that the service knows, by the names of their options.
_FILTERS: Final = ("since", "until", "actor", "action", "object", "owner")
_PAGE: Final = 500

#: Writes one entry.
_Writer = Callable[[AuditEntryView], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq audit`."""
    when = "a date or time such as 2026-11-23 or 2026-11-23T09:30 (UTC), or a time ago such as 90m, 36h or 7d"
    parser.add_argument("--since", type=parse_time, metavar="TIME", help=f"only entries from then on: {when}")
    parser.add_argument("--until", type=parse_time, metavar="TIME", help="only entries from before then")
    parser.add_argument("--actor", help="only acts of this user or service")
    parser.add_argument("--action", choices=list(Action), metavar="ACTION", help=f"one of {', '.join(Action)}")
    parser.add_argument("--object", help="only acts on this object, such as the id of a job")
    parser.add_argument("--owner", help="only acts on the work of this user")
    parser.add_argument(
        "--format",
        choices=["text", "csv", "json"],
        default="text",
        help="text for people; csv with a header; json: one object on each line (default: text)",
    )
    add_service_arguments(parser, admin=True)


def run(arguments: argparse.Namespace) -> int:
    """Print all entries that the options let through, newest first, and return 0.

    Raises `CommandRefused` if the service cannot be asked or refuses.
    """
    writer = _WRITERS[arguments.format](sys.stdout)
    ask_service(arguments, lambda client: _write_all(client, arguments, writer))
    return 0


def parse_time(text: str) -> int:
    """Return the time that `text` names, in whole seconds since the epoch: an ISO date or time, or "36h" ago.

    A time without a zone is UTC; `m`, `h` and `d` are units; a time before the epoch counts as 0. Raises
    `ArgumentTypeError` for any other text.
    """
    ago = re.fullmatch(r"(\d{1,6})([mhd])", text)
    if ago is not None:
        return max(0, int(SystemClock().now()) - int(ago[1]) * _UNITS[ago[2]])
    try:
        moment = datetime.fromisoformat(text)
        return max(0, int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()))
    except (ValueError, OverflowError) as error:
        expected = "a date, a time such as 2026-11-23T09:30, or a time ago such as 36h or 7d"
        raise argparse.ArgumentTypeError(f"{quoted(text)} is no time; {expected} was expected") from error


async def _write_all(client: ServiceClient, arguments: argparse.Namespace, write: _Writer) -> None:
    """Read page after page, and write each entry."""
    wanted = {name: getattr(arguments, name) for name in _FILTERS}
    before: int | None = None
    while True:
        page = await client.audit(**wanted, before=before, limit=_PAGE)
        for entry in page.entries:
            write(entry)
        if page.next is None:
            return
        before = page.next


def _text_writer(_: TextIO) -> _Writer:
    def write(entry: AuditEntryView) -> None:
        row = _row(entry)
        details = " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in entry.details.items())
        whose = f" of {entry.owner}" if entry.owner not in {None, entry.actor} else ""
        print_plain(f"{row['time']}  {entry.actor}  {entry.action}  {entry.object}{whose}  {details}".rstrip())

    return write


def _csv_writer(file: TextIO) -> _Writer:
    writer = csv.DictWriter(file, _COLUMNS)
    writer.writeheader()

    def write(entry: AuditEntryView) -> None:
        writer.writerow({**_row(entry), "details": json.dumps(entry.details, ensure_ascii=False)})

    return write


def _json_writer(file: TextIO) -> _Writer:
    def write(entry: AuditEntryView) -> None:
        file.write(json.dumps(_row(entry), ensure_ascii=False) + "\n")

    return write


def _row(entry: AuditEntryView) -> JsonObject:
    """Return an entry by the names of the columns."""
    time = datetime.fromtimestamp(entry.at, tz=UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"time": time, **{name: getattr(entry, name) for name in _COLUMNS[1:]}}


_WRITERS: Final[dict[str, Callable[[TextIO], _Writer]]] = {
    "text": _text_writer,
    "csv": _csv_writer,
    "json": _json_writer,
}
