"""The reason of each pending workload, with numbers, blockers and a remedy. Decides nothing."""
