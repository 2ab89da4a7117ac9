"""What the doctor says: one finding per thing that it looked at."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: What was looked at, in a word.
        level: ``error`` when spans or answers are lost by it, ``warning`` when they may be.
        text: What was found.
        remedy: What to do about it; empty when there is nothing to do.
    """

    check: str
    level: Level
    text: str
    remedy: str = ""
