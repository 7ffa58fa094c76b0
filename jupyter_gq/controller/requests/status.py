"""The health and readiness of this service, for load balancers, monitoring and administrators."""

from collections import Counter
from dataclasses import dataclass

from jupyter_gq import __version__
from jupyter_gq.client.models import Health, HealthCode
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.loop.leadership import Leadership
from jupyter_gq.controller.loop.name_check import NameCheck
from jupyter_gq.controller.views.overview import describe_devices
from jupyter_gq.devices.probe import ProbeState
from jupyter_gq.domain.workload import Kind
from jupyter_gq.scheduling.wording import UNOBSERVED


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceStatus:
    """The health and the readiness of a service that leads."""

    context: Context
    leadership: Leadership
    names: NameCheck

    def check_health(self) -> Health:
        """Return the condition of the loop, the settings, the devices and the backends, with all that is wrong.

        If several things are wrong, the code names only the first, in the order of `HealthCode`.
        """
        context = self.context
        error = context.settings_source.error
        probe = context.probe.status().state if context.probe is not None else ProbeState.OK
        set_aside = self._list_set_aside()
        shortages = list(filter(None, [context.store.shortage, context.disk_shortage]))
        away = context.bundles.trouble()
        wrong: dict[HealthCode, bool] = {
            "config_refused": error is not None,
            "disk_full": bool(shortages),
            "contents_away": bool(away),
            "step_failed": bool(context.failures),
            "runs_unobserved": bool(context.unobserved),
            "workloads_set_aside": bool(set_aside),
            "devices_missing": probe is not ProbeState.OK,
        }
        code: HealthCode = next((code for code, holds in wrong.items() if holds), "ok")
        return Health(
            status="ok" if code == "ok" else "degraded",
            code=code,
            version=__version__,
            devices=describe_devices(context.probe),
            policy=error or "ok",
            runs=UNOBSERVED if context.unobserved else "ok",
            limits=context.backend_of(Kind.TRAINING).capabilities.limits,
            failures=[
                *shortages,
                *filter(None, [away]),
                *(f"{what}: {failure}" for what, failure in sorted(context.failures.items())),
            ],
            warnings=[
                *filter(None, [context.contents_warning]),
                *context.settings_source.warnings,
                *self.names.warnings,
                *self._list_lost_queues(),
                *self._list_mps_troubles(),
                *self._list_journal_troubles(),
                *(told for each in self.context.backends for told in each.capabilities.warnings()),
            ],
            set_aside=set_aside,
        )

    def _list_lost_queues(self) -> list[str]:
        """Return a sentence about each queue that the settings no longer have, and that jobs still use."""
        known = {entry.queue.name for entry in self.context.settings.leaves()}
        jobs = (record.workload for record in self.context.records.unfinished())
        lost = Counter(job.queue for job in jobs if job.kind is Kind.TRAINING and job.queue not in known)
        return [
            f"The settings have no queue {queue} any more, and {count} {'job uses' if count == 1 else 'jobs use'} it. "
            "What waits there does not start. What runs there may be paused for other queues, "
            "and then does not start again. Move the jobs, or add the queue again."
            for queue, count in sorted(lost.items())
        ]

    def _list_mps_troubles(self) -> list[str]:
        """Return what is wrong with MPS, each sentence once."""
        ports = (each.capabilities.partitioning for each in self.context.backends)
        return list(dict.fromkeys(port.trouble for port in ports if port is not None and port.trouble))

    def _list_journal_troubles(self) -> list[str]:
        """Return what is wrong with the journals of suspensions, each sentence once."""
        ports = (each.capabilities.suspension for each in self.context.backends)
        return list(dict.fromkeys(port.trouble for port in ports if port is not None and port.trouble))

    def _list_set_aside(self) -> list[str]:
        """Return a sentence about each workload that the service cannot read, decide on or show."""
        unreadable = [f"{place} cannot be read. {why}" for place, why in sorted(self.context.store.unreadable.items())]
        return unreadable + self.context.set_aside.sentences()

    def explain_unready(self) -> str:
        """Return as a sentence why requests should come later or go elsewhere; "" = this service answers them."""
        return self.leadership.unready
