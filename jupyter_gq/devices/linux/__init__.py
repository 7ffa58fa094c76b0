"""The processes of this machine as Linux shows them: their identity, control groups and mounts, signals, a stop."""
