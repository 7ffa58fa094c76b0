"""Remember: the Store protocol, and SQLAlchemy Core behind it (SQLite in WAL mode by default)."""
