"""Tests, one folder a tier; each tier needs nothing of the next."""
