"""The HTTP server of the service and of the Hub's proxy: its connections, their limits and their time-outs."""
