"""JupyterHub's side: spawners that ask for a share before they start, the options page, the configuration helper."""
