"""Start pending workloads, and keep devices for those that have waited long."""
