"""Knowledge of one workload by itself: gang, replicas, seniority, request class, disruption."""
