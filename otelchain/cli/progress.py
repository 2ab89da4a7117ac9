"""How far long work has come: a bar on standard error, when that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Is told how much more is done.
Advance = Callable[[int], None]


@contextmanager
def progress(what: str, total: Callable[[], int]) -> Iterator[Advance]:
    """Show a bar while the block runs.

    Args:
        what: What is done, such as ``Exporting``.
        total: Returns how much there is to do; asked only when somebody looks.
    """
    if not sys.stderr.isatty():
        yield _nobody_looks
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total() or None)
        yield lambda amount: bar.advance(task, amount)


def _nobody_looks(_: int) -> None:
    pass


def in_percent(advance: Advance) -> Callable[[int, int], None]:
    """Return who to tell (done, whole), for a bar of 100."""
    shown = 0

    def tell(done: int, whole: int) -> None:
        nonlocal shown
        percent = 100 * done // max(whole, 1)
        advance(percent - shown)
        shown = percent

    return tell
