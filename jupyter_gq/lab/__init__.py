"""The Jupyter Server extension: it relays requests to the service, reports activity and emits events."""
