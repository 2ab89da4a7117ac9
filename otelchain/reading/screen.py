"""What tables and trees are drawn on: the terminal's width and colours, or none of both."""

import sys
from typing import Any

from rich.console import Console


def console() -> Console:
    """Return the console for standard output: no colour and no width limit unless a terminal."""
    if sys.stdout.isatty():
        return Console(highlight=False, soft_wrap=False)
    return unlimited()


def unlimited(width: int = 1_000_000) -> Console:
    """Return a console without colours.

    Args:
        width: In cells, which is what Rich measures in; one that no row reaches unless given.
    """
    return Console(width=width, color_system=None, force_terminal=False, highlight=False)


def drawn(screen: Console, renderable: Any) -> str:
    """Return what the console would print, without the blanks that fill a line up to its end."""
    with screen.capture() as captured:
        screen.print(renderable)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())
