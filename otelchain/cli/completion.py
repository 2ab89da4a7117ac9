"""``otelchain completion``: the script with which a shell completes commands, ids and values."""

from typing import Final

import click
from click.shell_completion import get_completion_class

_SHELLS: Final = ("bash", "zsh", "fish")
_COMMAND: Final = "otelchain"
# The name that click derives from the command's.
_VARIABLE: Final = "_OTELCHAIN_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion_command(ctx: click.Context, /, shell: str) -> None:
    """Print a script that lets SHELL complete commands, queries, options, ids and values.

    Load it where your shell starts: in ~/.bashrc or ~/.zshrc as below, for fish in
    ~/.config/fish/completions/otelchain.fish. Ids, services, statuses and names are those of
    --database and --endpoint, or of their variables.

    \b
    Example:
      otelchain completion bash > ~/.otelchain-complete.bash  # . ~/.otelchain-complete.bash
      eval "$(otelchain completion zsh)"
      otelchain completion fish > ~/.config/fish/completions/otelchain.fish
    """  # noqa: D301 - click reads the character \b
    found = get_completion_class(shell)
    assert found is not None, shell
    root = ctx.find_root().command
    click.echo(found(root, {}, _COMMAND, _VARIABLE).source())
