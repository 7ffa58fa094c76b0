# JupyterHub with GPU shares and training queues on Kubernetes. The Hub reads this file beside Zero to JupyterHub's own
# configuration, and the scheduler service reads it in its pod. The chart jupyter-gq ships the file to both. Changes of
# quotas, queues and idle rules take effect without a restart.

from jupyter_gq.hub.config_kubernetes import configure_kubernetes

# Administrators see and change everybody's jobs. The chart has the values admins.users and admins.groups for them.
# Without the chart: configure_kubernetes(c, admins={"root"}).
configure_kubernetes(c)

# --- Devices: a pool has the devices of the nodes with its labels --------------------------------------------------
# Notebooks use the pool "build", jobs the pool "train". If there is only one pool, it serves both.
c.Pools.pools = {
    "build": {"nodes": {"jupyter-gq.org/pool": "build"}},
    "train": {"nodes": {"jupyter-gq.org/pool": "train"}},
}

# --- Build: GPUs that each user can always have for notebooks, for all servers together ------------------------------
c.FixedQuota.default = "0.25"
# Groups of the Hub may have more: c.FixedQuota.groups = {"vision": "0.5"}

# --- Train: GPUs that each queue can always reclaim; queues may use more while GPUs are idle -------------------------
# A queue for some groups only: {"vision": {"quota": 4, "groups": ["vision"]}, ...}
# CPU and memory of jobs that name none (the memory is also a limit): "default_cpus": 4, "default_memory": "16 GiB"
c.TrainingQueues.queues = {"training": {"quota": 1}}

# --- Idle notebooks lose their share after half an hour, with a countdown of ten minutes, if somebody waits ----------
c.IdlePolicy.after = 1800
c.IdlePolicy.warning = 600
