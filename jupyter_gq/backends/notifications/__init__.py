"""Notifications outside of JupyterLab: messages to users about the end of their jobs, by webhook and e-mail."""
