# JupyterHub with GPU shares and training queues on a shared machine whose users have accounts on it. Start it as root:
# people log in with their passwords (PAM), servers and jobs run as them. Quotas, queues and idle rules may be edited
# while it runs; they take effect within seconds.

from jupyter_gq.hub.config import configure

# Administrators see and change everybody's jobs: configure(..., admins={"root"}).
configure(c, spawner="jupyter-gq-system", state_dir="/var/lib/jupyter-gq")

# --- Who may log in: every account of this machine; put TLS in front before others reach it ------------------------
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.JupyterHub.authenticator_class = "pam"
c.Authenticator.allow_all = True

# --- Servers and jobs run as the system user of the same name ------------------------------------------------------
c.LocalBackend.system_users = True
c.Spawner.default_url = "/lab"
c.JupyterHub.allow_named_servers = True

# --- Devices: those that NVML finds, never simulated ones ----------------------------------------------------------
c.SimulatedDevices.mode = "never"

# --- Build: what each person can always have for notebooks, over all of their servers --------------------------------
c.FixedQuota.default = "0.25"

# --- Train: one queue for everybody; see the how-to for quotas by group --------------------------------------------
c.TrainingQueues.queues = {"training": {"quota": 1}}

# --- Idle notebooks: after half an hour, the last ten minutes with a countdown; only when somebody waits -----------
c.IdlePolicy.after = 1800
c.IdlePolicy.warning = 600
