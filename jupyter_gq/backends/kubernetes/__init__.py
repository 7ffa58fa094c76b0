"""Workloads as pods of a Kubernetes cluster: its API server holds them, its scheduler binds them, kubelets run them."""
