"""Which settings the spawners have of us, for who checks a configuration without a hub: a test holds them together."""

#: The traits of `mixin.GPUShareMixin`, whose module takes most of JupyterHub with it.
GPU_SHARE_MIXIN = frozenset(
    {
        "gpu_queue_length",
        "gpu_queue_poll_interval",
        "gpu_queue_timeout",
        "kernel_provisioner",
        "other_user_options",
        "server_service_url",
        "service_timeout",
        "service_url",
    }
)
