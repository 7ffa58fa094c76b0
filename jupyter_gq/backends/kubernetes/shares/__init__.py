"""Devices of shares: slots, reservation pods, and the check which devices a container can see."""
