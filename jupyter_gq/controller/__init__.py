"""The controller of the service: its loop (observe, decide, record, act) and the objects that answer requests."""
