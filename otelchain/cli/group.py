"""A group of commands that tells our own errors in one line and lets bugs keep their traceback."""

import difflib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NoReturn

import click

from otelchain.errors import OtelchainError
from otelchain.reading.extras import MissingExtraError, extra_of
from otelchain.reading.visible import visible

# Exit codes of a shell for a program ended by SIGINT and by SIGPIPE.
_INTERRUPTED: Final = 130
_NO_READER: Final = 141


class Commands(click.Group):
    """Print our own errors as one line ``Error: …`` and exit with 2."""

    # What a command of this group is called in "no … is named".
    noun = "command"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what stands before a command's name, or say that it belongs after one."""
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as error:
            name = self._with_option(ctx, error.option_name, args)
            if name is None:
                raise
            raise click.UsageError(
                f"write {error.option_name} after the name of a {self.noun}, as in "
                f"'{ctx.command_path} {name} {error.option_name} …'; "
                f"'{ctx.command_path} --help' lists the names",
                ctx,
            ) from error

    def _with_option(self, ctx: click.Context, option: str, args: list[str]) -> str | None:
        """Return a command that has the option: one that is typed already, or else the first."""
        names = self.list_commands(ctx)
        for name in (*(word for word in args if word in names), *names):
            command = self.get_command(ctx, name)
            if command and any(option in param.opts for param in command.params):
                return name
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            raise click.UsageError(f"no {self.noun} is named {name!r}; {self.hint(ctx, name)}", ctx)
        return super().resolve_command(ctx, args)

    def hint(self, ctx: click.Context, name: str) -> str:
        """Say which command may have been meant."""
        names = self.list_commands(ctx)
        near = difflib.get_close_matches(name, names, 1) or [own for own in names if name in own]
        return f"did you mean {near[0]!r}?" if near else f"'{ctx.command_path} --help' lists them"

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and write out what it printed."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes once more at exit; nobody reads that either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(_NO_READER)
        except ModuleNotFoundError as error:
            extra = extra_of(error)
            if extra is None:
                raise
            root = ctx.find_root()
            command = f"{root.command_path} {root.invoked_subcommand or ''}".strip()
            raise MissingExtraError(command, extra) from error
        return result

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the group; the one place where an error becomes a line and an exit code."""
        run = partial(super().main, args, prog_name, complete_var, standalone_mode=False, **extra)
        return _exit_with(run) if standalone_mode else run()


def _exit_with(run: Callable[[], Any]) -> NoReturn:
    try:
        code = run()
    except click.Abort:
        sys.exit(_INTERRUPTED)
    except click.ClickException as error:
        _fail(error.format_message())
    except OtelchainError as error:
        _fail(str(error))
    sys.exit(code if isinstance(code, int) else 0)


def _fail(text: str) -> NoReturn:
    # An error may quote what is stored: the value that is no number.
    click.echo(f"Error: {visible(' '.join(text.split()))}", err=True)
    sys.exit(2)
