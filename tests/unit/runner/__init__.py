"""The runner, piece by piece."""
