"""The lines of a command about the files that a job takes along, and about the folder in which it runs."""

from jupyter_gq.domain.amount import format_bytes
from jupyter_gq.lab.project.plan import COMPUTED, list_gaps
from jupyter_gq.lab.requests import FilesPlan

#: Most paths that are named and that the job reads where they are.
_MOST_NAMED = 5


def describe_files(plan: FilesPlan) -> list[str]:
    """Return the short lines about the files of a job; `list_files` returns all.

    The first line says how many files go along, where the job runs and what the job reads in place. A line follows for
    each file that the job will lack, and the sentences on patterns and on what stays.
    """
    notes = [note for note in plan.notes if note != COMPUTED]
    read = [file.path for file in plan.staying if file.reached]
    if read:
        more = f" and {len(read) - _MOST_NAMED:,} more" if len(read) > _MOST_NAMED else ""
        notes.append(f"It reads where they are: {', '.join(read[:_MOST_NAMED])}{more}.")
    return [" ".join([*_count_going(plan), *notes]), *list_gaps(plan)]


def list_files(plan: FilesPlan) -> list[str]:
    """Return all lines about the files of a job: what goes along, where the job runs, and what stays.

    Each file has a line with its size or with why it stays. The sentences on patterns and on what stays follow.
    """
    going = [f"  {file.path} ({format_bytes(file.bytes)}, {file.why})" for file in plan.going]
    staying = [f"{file.path}: {file.message}." for file in plan.staying]
    return [*_count_going(plan), *going, " ".join(plan.notes), *staying, *plan.pattern_notes]


def _count_going(plan: FilesPlan) -> list[str]:
    """Return a sentence on the number and the size of the files that go along; none if no file does."""
    if not plan.going:
        return []
    size, number = format_bytes(sum(file.bytes for file in plan.going)), len(plan.going)
    return [f"1 file ({size}) goes along." if number == 1 else f"{number:,} files ({size}) go along."]
