"""Leader election between several replicas of the service."""
