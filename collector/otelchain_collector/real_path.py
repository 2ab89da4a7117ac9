"""Where a database really is: DuckDB puts its log beside the file that a link leads to."""

import os
from pathlib import Path


def real_path(database: Path) -> Path:
    """Return the file that a link leads to, there or not; a path that is no link stays as it is."""
    # Never fails, also when links lead in a circle.
    return Path(os.path.realpath(database)) if database.is_symlink() else database
