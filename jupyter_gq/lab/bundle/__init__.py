"""The bundle of a job, by the request to send it: cells, software, variables of the environment."""
