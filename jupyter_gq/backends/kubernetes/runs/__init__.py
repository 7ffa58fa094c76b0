"""Runs of notebooks and jobs: their pods from launch to end."""
