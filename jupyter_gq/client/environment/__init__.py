"""The environment of a job: its variables, its secrets and the command of its kernel."""
