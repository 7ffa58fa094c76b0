"""Unit tests of the parts of the runner."""
