"""One turn of a made-up application: runs with times, payloads and ends, as a tracer sees them.

An application is a function that opens runs with `Turn.run` and `Turn.did` as a real one calls its
steps; `Stopped` goes up through them as an exception does.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

# In the place of what every copy of a turn has for itself; see copy_turns.sql.
RUN: Final = "@run@"  # the first 20 digits of a run id
SESSION: Final = "@session@"
USER: Final = "@user@"

_PROSE: Final = (
    "the customer asks why parcel promised for Tuesday has not arrived and whether fee express is "
    "paid back order was packed on Sunday evening left warehouse Monday waiting in depot since "
    "carrier names a missing house number refund please check address again tool returned status "
    "delayed because of weather try tomorrow morning between nine eleven invoice kettle warranty "
    "handbook says thirty days from delivery unless item is damaged then replacement goes out first"
)
_CORPUS_WORDS: Final = 60_000
_MOST_CHARACTERS: Final = 120_000


@dataclass
class Step:
    """A run. Times are milliseconds from the start of the turn.

    Attributes:
        place: Its number in the turn.
        parent: The number of its parent; None for a root.
        trace: 0, or 1 for a run of the second trace of a turn, which resumes the first.
        facts: What it says about itself, by column of ``runs``.
        attributes: What only otelchain's handler says, by attribute name.
    """

    place: int
    parent: int | None
    trace: int
    name: str
    run_type: str
    start_ms: float
    end_ms: float = 0
    status: str = "ok"
    error_type: str | None = None
    error: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)


class Stopped(Exception):  # noqa: N818 - an interrupted run did not fail
    """A run did not end well, and neither do those above it that do not catch this."""

    def __init__(self, error_type: str | None, error: str, status: str = "error") -> None:
        super().__init__(error)
        self.error_type, self.error, self.status = error_type, error, status


class Texts:
    """Payloads whose sizes have a long tail: half below the median, one in a thousand 20 times."""

    def __init__(self, choose: Random) -> None:
        self._choose = choose
        self._corpus = " ".join(choose.choices(_PROSE.split(), k=_CORPUS_WORDS))

    def text(self, median: int) -> str:
        """Return so many characters of prose, more or less."""
        size = min(int(self._choose.lognormvariate(math.log(median), 1.0)) + 1, _MOST_CHARACTERS)
        first = self._choose.randrange(len(self._corpus) - size)
        return self._corpus[first : first + size]


class Turn:
    """The runs of one turn, in the order in which they start."""

    def __init__(self, choose: Random, texts: Texts) -> None:
        self.choose = choose
        self.text = texts.text
        self.steps: list[Step] = []
        self._open: list[Step] = []
        self._clock_ms = 0.0
        self._trace = 0

    def happens(self, percent: float) -> bool:
        """Say whether something happens that does in so many of a hundred cases."""
        return self.choose.random() * 100 < percent

    def wait(self, median_ms: float) -> None:
        """Let time pass, now and then much of it."""
        self._clock_ms += self.choose.lognormvariate(math.log(median_ms), 0.5)

    def another_trace(self) -> None:
        """Go on in a trace of its own; no run may be open."""
        self._trace += 1

    @contextmanager
    def run(self, name: str, run_type: str = "chain", **facts: Any) -> Iterator[Step]:
        """Open a run for the time of a with block."""
        parent = self._open[-1] if self._open else None
        step = Step(
            len(self.steps),
            None if parent is None else parent.place,
            self._trace,
            name,
            run_type,
            self._clock_ms,
            facts={**_inherited(parent), **facts},
        )
        self.steps.append(step)
        self._open.append(step)
        self._clock_ms += 0.2
        try:
            yield step
        except Stopped as stopped:
            step.status, step.error_type = stopped.status, stopped.error_type
            step.error = stopped.error
            raise
        finally:
            self._clock_ms += 0.3
            step.end_ms = self._clock_ms
            self._open.pop()

    def did(
        self,
        name: str,
        run_type: str,
        median_ms: float,
        fails: Stopped | None = None,
        **facts: Any,
    ) -> Step:
        """Add a run without children that took about so long, or failed after it."""
        with self.run(name, run_type, **facts) as step:
            self.wait(median_ms)
            if fails is not None:
                raise fails
        return step

    @contextmanager
    def node(self, name: str, number: int, attempt: int = 1) -> Iterator[Step]:
        """Open the run of a LangGraph node in a superstep; attempts of one task share its name."""
        task = f"{name}:{RUN}-{number:012x}"
        retry = {"retry_attempt": attempt} if attempt > 1 else {}
        node: dict[str, Any] = {
            "langgraph_node": name,
            "langgraph_step": number,
            "langgraph_checkpoint_ns": task,
        }
        with self.run(name, **node) as step:
            step.facts.update(retry)
            yield step


def _inherited(parent: Step | None) -> dict[str, Any]:
    # LangGraph puts its facts into the metadata of everything inside a node.
    names = ("langgraph_node", "langgraph_step", "langgraph_checkpoint_ns")
    return {} if parent is None else {n: parent.facts[n] for n in names if n in parent.facts}
