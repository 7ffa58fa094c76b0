"""A peer's decision tables, run through our own scheduling core: `python -m tests.conformance.kai DIR`.

The tables are data that lives outside this repository. A case says what is in a cluster and what should become of
each task; it is translated into our snapshot (`translate`), our core decides (`play`, `shares`), and what became of
each task is compared. Where we decide otherwise, `reasons` says why, by features of the case.
"""
