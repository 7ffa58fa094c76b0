"""Limits that the loop keeps: on disk space, logs, the database, memory and running time."""
