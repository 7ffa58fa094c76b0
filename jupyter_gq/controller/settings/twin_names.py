"""Names of queues that differ only in how Unicode encodes their letters, and so look the same."""

import unicodedata
from collections.abc import Iterable, Iterator


def describe_twins(queues: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each name of a queue that differs from an earlier one only in how its letters are encoded.

    Letters with accents, and those of other widths, can be written in several ways (Unicode's forms of normalization,
    https://unicode.org/reports/tr15/). Jobs sent to one of the queues do not have the quota of the other.
    """
    known: dict[str, str] = {}
    for name in queues:
        other = known.setdefault(unicodedata.normalize("NFKC", name), name)
        if other != name:
            yield (
                f"c.TrainingQueues.queues: the names {other!a} and {name!a} look the same and are two queues. Keep one "
                "of them."
            )
