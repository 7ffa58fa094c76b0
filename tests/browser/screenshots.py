"""Pictures of the real product.

`python -m tests.browser.screenshots FOLDER`: the pictures of the README and the docs.
`python -m tests.browser.screenshots FOLDER --looks`: all parts, light and dark, in a small and a large window.
"""

import asyncio
import sys
from pathlib import Path

from .test_looks import take_looks
from .test_story import countdown, lending, whole_path


async def main(folder: Path, *, looks: bool) -> None:
    """Save the pictures in the folder."""
    for take in (take_looks,) if looks else (whole_path, countdown, lending):
        await take(folder)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), looks="--looks" in sys.argv[2:]))
