# JupyterHub with GPU shares and training queues on a shared machine whose users have accounts on it. Start the Hub as
# root: users log in with their passwords (PAM), and servers and jobs run as their users. Changes of quotas, queues and
# idle rules take effect within seconds.

from jupyter_gq.hub.config import configure

# Administrators see and change everybody's jobs: configure(..., admins={"root"}).
configure(c, spawner="jupyter-gq-system", state_dir="/var/lib/jupyter-gq")

# --- Users: every account of this machine; set up TLS before you let other machines reach the Hub ------------------
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.JupyterHub.authenticator_class = "pam"
c.Authenticator.allow_all = True

# --- Servers and jobs run as the operating-system user of the same name --------------------------------------------
c.LocalBackend.system_users = True
c.Spawner.default_url = "/lab"
c.JupyterHub.allow_named_servers = True

# --- Devices: those that NVML finds, never simulated devices -------------------------------------------------------
c.SimulatedDevices.mode = "never"

# --- Build: GPUs that each user can always have for notebooks, for all servers together ------------------------------
c.FixedQuota.default = "0.25"

# --- Train: one queue for everybody; docs/how-to/set-quotas.md describes quotas by group ---------------------------
c.TrainingQueues.queues = {"training": {"quota": 1}}

# --- Idle notebooks lose their share after half an hour, with a countdown of ten minutes, if somebody waits ----------
c.IdlePolicy.after = 1800
c.IdlePolicy.warning = 600
