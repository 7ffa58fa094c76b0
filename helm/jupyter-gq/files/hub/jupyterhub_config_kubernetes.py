# JupyterHub with GPU shares and training queues on Kubernetes: read by the Hub, beside Zero to JupyterHub's own
# configuration, and by the scheduler service in its pod. The chart jupyter-gq ships it to both. Quotas, queues and idle
# rules may be edited while it runs; they take effect without a restart.

from jupyter_gq.hub.config_kubernetes import configure_kubernetes

# Administrators see and change everybody's jobs. With the chart they are its values admins.users and admins.groups;
# elsewhere: configure_kubernetes(c, admins={"root"}).
configure_kubernetes(c)

# --- Devices: those of the nodes with these labels ----------------------------------------------------------------
# Notebooks take those of the pool "build", jobs those of "train"; a pool that is the only one serves both.
c.Pools.pools = {
    "build": {"nodes": {"jupyter-gq.org/pool": "build"}},
    "train": {"nodes": {"jupyter-gq.org/pool": "train"}},
}
# Notebooks may be promised one and a half times their devices: idle ones give way to those who wait.
c.Pools.over_subscription = 1.5

# --- Build: what each person can always have for notebooks, over all of their servers --------------------------------
c.FixedQuota.default = "0.25"
# Groups of the Hub may have more: c.FixedQuota.groups = {"vision": "0.5"}

# --- Train: what each queue can always have back; more while GPUs are idle -----------------------------------------
# A queue for some groups only: {"vision": {"quota": 4, "groups": ["vision"]}, ...}
# CPU and memory of jobs that name none (the memory is a limit, too): "default_cpus": 4, "default_memory": "16 GiB"
c.TrainingQueues.queues = {"training": {"quota": 1}}

# --- Idle notebooks: after half an hour, the last ten minutes with a countdown; only when somebody waits -----------
c.IdlePolicy.after = 1800
c.IdlePolicy.warning = 600
