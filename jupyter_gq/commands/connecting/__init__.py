"""The way of a command to the scheduler service: address, token and patience."""
