"""`python -m tests.browser.screenshots FOLDER`: the pictures of the README and the docs, from the real product."""

import asyncio
import sys
from pathlib import Path

from .test_story import countdown, lending, whole_path

if __name__ == "__main__":
    asyncio.run(whole_path(Path(sys.argv[1])))
    asyncio.run(countdown(Path(sys.argv[1])))
    asyncio.run(lending(Path(sys.argv[1])))
