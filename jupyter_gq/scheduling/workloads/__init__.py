"""What the core knows of one workload by itself: its gang, its replicas, its seniority, its request class."""
