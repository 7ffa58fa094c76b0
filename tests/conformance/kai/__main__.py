"""Our decisions beside a peer's decision tables.

`python -m tests.conformance.kai DIR [--json FILE]` runs every case of a folder;
`python -m tests.conformance.kai --time FILE [--repeat N]` measures our cycle on one case.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from .report import as_json, lines
from .run import run_folder
from .timing import one_case, time_cycle
from .verdict import Untranslatable


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the folder and print; 2 when there is no case in it. Disagreement is a result, not an error."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.kai", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="the folder with the tables (*.json)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there, too")
    parser.add_argument("--time", type=Path, metavar="FILE", help="only measure the cycle on the one case of this file")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="with --time: so many times (5)")
    options = parser.parse_args(arguments)
    if options.time is not None:
        return _time(options.time, options.repeat)
    if options.folder is None:
        parser.error("name the folder with the tables, or --time FILE")
    verdicts = run_folder(options.folder)
    if not verdicts:
        print(f"There is no case in {options.folder}; expected *.json files with a list of cases.", file=sys.stderr)
        return 2
    print("\n".join(lines(verdicts)))
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(verdicts), indent=1) + "\n", encoding="utf-8")
    return 0


def _time(path: Path, repeat: int) -> int:
    try:
        print(time_cycle(one_case(path), repeat))
    except (OSError, json.JSONDecodeError, Untranslatable) as error:
        print(f"{path} cannot be timed: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
