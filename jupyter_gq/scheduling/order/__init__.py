"""Queue order and job order: which pending workload is considered next."""
