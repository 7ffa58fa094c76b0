"""Devices of shares: slots, reservations, and the check of what a container can see."""
