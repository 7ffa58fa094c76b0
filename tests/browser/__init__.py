"""The user's path in a real browser against the real hub."""
