"""What tables and trees are drawn on: the terminal's width and colours, or none of both."""

import sys
from typing import Any

from rich.console import Console


def console(color: str = "auto") -> Console:
    """Return the console for standard output: no colour and no width limit unless a terminal.

    Args:
        color: ``auto``, ``always`` or ``never``; Rich honours NO_COLOR and TERM when it is auto.
    """
    if not sys.stdout.isatty():
        return unlimited(colored=color == "always")
    if color == "always":
        return Console(highlight=False, soft_wrap=False, color_system="256", no_color=False)
    no_color = True if color == "never" else None
    return Console(highlight=False, soft_wrap=False, no_color=no_color)


def unlimited(width: int = 1_000_000, *, colored: bool = False) -> Console:
    """Return a console that is no terminal.

    Args:
        width: In cells, which is what Rich measures in; one that no row reaches unless given.
        colored: With colours all the same, for a pager or a log that shows them.
    """
    return Console(
        width=width,
        color_system="256" if colored else None,
        no_color=not colored,
        force_terminal=False,
        highlight=False,
    )


def drawn(screen: Console, renderable: Any) -> str:
    """Return what the console would print, without the blanks that fill a line up to its end."""
    with screen.capture() as captured:
        screen.print(renderable)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())
