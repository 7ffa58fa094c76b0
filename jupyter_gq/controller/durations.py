"""Durations in sentences."""


def format_duration(seconds: float) -> str:
    """Return a number of seconds as text, such as "8 s", "12 min", "3 h 20 min" or "12 h".

    Seconds are used below 100 s, and rounded minutes from there on.
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, left = divmod(minutes, 60)
    return f"{hours} h {left} min" if left else f"{hours} h"
