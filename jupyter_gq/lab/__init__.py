"""The Jupyter Server extension: it relays requests to the service, reports activity and emits events.

See docs/decisions/0492-split-the-room-lab-into-layered-folders.md.
"""
