"""Garbage collection: finished work after a while, and files that no record names."""
