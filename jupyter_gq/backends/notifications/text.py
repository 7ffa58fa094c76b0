"""The words of notifications. Pure."""

from .notifier import Notice

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def describe(notice: Notice) -> str:
    """Return the sentences under the subject: how long it took, in which queue, and the reason."""
    took = f"{notice.owner} sent it to the queue {notice.queue} {_describe_time(notice.took)} before its end."
    return f"{took} {notice.sentence}".rstrip()


def _describe_time(seconds: float) -> str:
    """Return a time in its largest two units, such as "2 h 5 min"."""
    for large, small, names in (
        (_DAY, _HOUR, ("days", "h")),
        (_HOUR, _MINUTE, ("h", "min")),
        (_MINUTE, 1, ("min", "s")),
    ):
        if seconds >= large:
            rest = int(seconds % large // small)
            return f"{int(seconds // large)} {names[0]}" + (f" {rest} {names[1]}" if rest else "")
    return f"{int(seconds)} s"
