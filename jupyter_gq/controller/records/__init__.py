"""The records of workloads: in the store, and the unfinished ones also in memory."""
