"""The soak test: users, jobs and notebooks on a real JupyterHub with the real service, and troubles at random.

`plan.py` says how much, `world.py` starts and finds the processes, `users.py` and `cells.py` are the load,
`troubles.py` and `fuzz.py` do the damage, `watch.py` looks meanwhile, `checks.py` judges, `report.py` tells.
"""
