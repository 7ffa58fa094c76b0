"""Notices about ended jobs, which go to users outside of JupyterLab."""
