"""What holds for every tier. It loads no plugin."""

from hypothesis import HealthCheck, settings

# Both judge the machine: an example takes longer than 0.2 s, or its data more than a second, where others work too.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
