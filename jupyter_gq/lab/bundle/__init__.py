"""What a job is given: its cells, its software and its variables of the environment, by the request to send it."""
