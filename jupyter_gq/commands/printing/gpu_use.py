"""The GPU use of a job in the text that commands print."""

from jupyter_gq.client.models import JobSummary
from jupyter_gq.domain.amount import format_memory


def describe_use(job: JobSummary) -> str:
    """Return the last sample of a job in brief, such as "87 %, 12 GiB of 40 GiB"; unknown figures are left out."""
    use = "" if job.utilisation is None else f"{job.utilisation} %"
    return ", ".join(filter(None, [use, describe_memory(job)]))


def describe_memory(job: JobSummary) -> str:
    """Return the GPU memory that a job holds, such as "12 GiB of 40 GiB"; "" if it is unknown."""
    if job.gpu_memory_used_mib is None:
        return ""
    limit = "" if job.gpu_memory_limit_mib is None else f" of {format_memory(job.gpu_memory_limit_mib)}"
    return f"{format_memory(job.gpu_memory_used_mib)}{limit}"
