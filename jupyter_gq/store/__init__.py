"""The store of the service: its protocol, and its implementation with SQLAlchemy Core on SQLite or PostgreSQL."""
