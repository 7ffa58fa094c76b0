"""Names of queues that differ only in how Unicode encodes their letters, and so are easily confused."""

import unicodedata
from collections.abc import Iterable, Iterator


def describe_twins(queues: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each name of a queue that Unicode's normalization NFKC makes equal to an earlier one.

    Letters with accents, ligatures, raised digits and letters of other widths can be written in several ways
    (https://unicode.org/reports/tr15/). Letters of other alphabets are not compared. Jobs sent to one of the queues do
    not have the quota of the other.
    """
    known: dict[str, str] = {}
    for name in queues:
        other = known.setdefault(unicodedata.normalize("NFKC", name), name)
        if other != name:
            yield (
                f"c.TrainingQueues.queues: the names {other!a} and {name!a} are easily confused, and are two queues. "
                "Keep one of them."
            )
