"""Files that are being written, under a name of their own until they are whole: NAME.draft-PID.

A process that is killed leaves its draft; the next one that writes a file of the same name removes
it, and `otelchain doctor` names those beside a database.
"""

import os
import re
import shutil
from glob import escape
from pathlib import Path
from typing import Final

from otelchain_collector.discovery import is_running
from otelchain_collector.real_path import real_path

_PID: Final = re.compile(r"\.draft-(?P<pid>\d+)(?:\.wal|\.tmp)?\Z")


def draft_of(file: Path) -> Path:
    """Return the name for a draft of a file, beside it; what killed processes left is removed."""
    for left in abandoned(file):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)
    draft = file.with_name(f"{file.name}.draft-{os.getpid()}")
    draft.unlink(missing_ok=True)
    return draft


def abandoned(file: Path) -> list[Path]:
    """Return the drafts of a file that no running process writes, with what lies beside them."""
    file, found = real_path(file), []
    for path in sorted(file.absolute().parent.glob(f"{escape(file.name)}.draft-*")):
        match = _PID.search(path.name)
        if match and not is_running(int(match["pid"])):
            found.append(path)
    return found
