"""The connection to the scheduler service: its address, requests and streams."""
