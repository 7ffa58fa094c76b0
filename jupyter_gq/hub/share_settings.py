"""The names of the settings that the mixin adds to spawners, for checks of a configuration without JupyterHub.

A test compares them with the mixin.
"""

#: Traits of `mixin.GPUShareMixin`; importing that module would import most of JupyterHub.
GPU_SHARE_TRAITS = frozenset(
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
