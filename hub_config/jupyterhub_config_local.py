# JupyterHub with GPU shares and training queues on one machine, for one operating-system user: what `make demo` starts.
# Changes of quotas, queues and idle rules take effect within seconds.

from jupyter_gq.hub.config import configure

# Administrators see and change everybody's jobs, take GPUs out of service, and administer the Hub: name your own.
configure(c, admins={"dana"})

# --- Users: any password is accepted, so the Hub listens on this machine only --------------------------------------
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allowed_users = {"ann", "bob", "carol", "dana"}
c.JupyterHub.load_groups = {
    "vision": {"users": ["ann", "carol"]},
    "nlp": {"users": ["bob"]},
}

# --- Servers: processes of the hub's own user, with a home folder for each person ----------------------------------
c.SimpleLocalProcessSpawner.home_dir_template = "homes/{username}"
c.Spawner.default_url = "/lab"
c.JupyterHub.allow_named_servers = True

# --- Devices: those that NVML finds; on a machine with fewer than two GPUs, these simulated devices ----------------
c.SimulatedDevices.devices = "2x A100-40GB"
c.SimulatedDevices.needed = 2

# One device for notebooks, one for training.
c.Pools.pools = {"build": {"devices": 1}, "train": {"devices": 1}}
c.Pools.build = "build"
c.Pools.train = "train"
# The quotas of the users that c.FixedQuota.users names may add up to one and a half times that device.
c.Pools.over_subscription = 1.5

# --- Build: GPUs that each user can always have for notebooks, for all servers together ------------------------------
c.FixedQuota.default = "0.25"
c.FixedQuota.groups = {"vision": "0.5"}

# --- Train: GPUs that each queue can always reclaim; queues may use more while GPUs are idle -------------------------
c.TrainingQueues.queues = {
    "vision": {"quota": "0.5", "groups": ["vision"]},
    "nlp": {"quota": "0.5", "groups": ["nlp"]},
}

# --- Idle notebooks lose their share after half an hour, with a countdown of ten minutes, if somebody waits ----------
c.IdlePolicy.after = 1800
c.IdlePolicy.warning = 600
