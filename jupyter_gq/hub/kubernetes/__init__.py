"""The spawner of servers as pods: KubeSpawner with shares of GPUs."""
