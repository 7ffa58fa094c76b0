"""The styles of the service's log: lines for people, or JSON objects for programs."""

from jupyter_gq.domain.json_types import JsonObject


def describe_log(style: str, level: object) -> JsonObject:
    """Return the part of a logging configuration that writes the log of the whole process in one style.

    Records of this package below `level`, and records of other libraries below a warning, are left out.
    """
    json_formatter = {
        "()": "pythonjsonlogger.json.JsonFormatter",
        "fmt": ["levelname", "name", "message"],
        "rename_fields": {"levelname": "level", "name": "logger", "exc_info": "traceback"},
        "timestamp": "time",
    }
    return {
        "handlers": {"console": {"formatter": "json" if style == "json" else "console"}},
        "formatters": {"json": json_formatter} if style == "json" else {},
        "loggers": {"jupyter_gq": {"level": level}},
        "root": {"level": "WARNING", "handlers": ["console"]},
    }
