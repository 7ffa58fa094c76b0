"""Jupyter Server extension: relays to the service with the server's token, reports activity, emits events."""
