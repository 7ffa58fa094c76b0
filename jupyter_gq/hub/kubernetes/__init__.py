"""Servers as pods: KubeSpawner with shares of GPUs."""
