"""The scheduling core: one pure cycle from a snapshot to a decision.

See docs/decisions/0056-split-the-big-rooms-into-layered-folders.md.
"""
