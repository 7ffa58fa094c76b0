"""Why each pending workload waits, with numbers, blockers and a remedy. Decides nothing."""
