"""The scheduling core: one pure cycle from a snapshot to a decision."""
