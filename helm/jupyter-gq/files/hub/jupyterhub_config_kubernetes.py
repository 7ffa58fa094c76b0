# JupyterHub with GPU shares and training queues on Kubernetes.
