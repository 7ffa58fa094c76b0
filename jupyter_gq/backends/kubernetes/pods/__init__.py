"""Pods by run, and how a pod ended."""
