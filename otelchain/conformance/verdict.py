"""What a probe says of a tracer: passed, failed or not applicable, and what was seen."""

from dataclasses import dataclass
from typing import Final, Literal

Outcome = Literal["pass", "fail", "n/a"]

PASS: Final = "pass"  # noqa: S105 - no password
FAIL: Final = "fail"
NOT_APPLICABLE: Final = "n/a"


@dataclass(frozen=True)
class Verdict:
    """One cell of the table.

    Attributes:
        outcome: Whether the tracer behaved.
        seen: What was seen, in a few words, such as ``1 started, 0 ended``.
    """

    outcome: Outcome
    seen: str


class NotApplicableError(Exception):
    """A probe cannot be tried here; the text says why."""


def judge(good: bool, seen: str) -> Verdict:
    """Pass or fail, with what was seen either way."""
    return Verdict(PASS if good else FAIL, seen)
