"""Kubernetes objects that the backend makes, as data. Pure."""
