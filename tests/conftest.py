"""What holds for every tier."""

from hypothesis import HealthCheck, settings

from tests.kept_logs import KeepsLogs

# Both judge the machine: an example takes longer than 0.2 s, or its data more than a second, where others work too.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_configure(config):
    config.pluginmanager.register(KeepsLogs(config.rootpath), "kept-logs")
