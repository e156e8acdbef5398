"""``gar completion``: what makes a shell complete this command."""

import click
from click.shell_completion import get_completion_class

_SHELLS = {
    "bash": 'eval "$(gar completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(gar completion zsh)"   # in ~/.zshrc',
    "fish": "gar completion fish | source   # in ~/.config/fish/config.fish",
}


@click.command(epilog="\b\n" + "\n".join(_SHELLS.values()))
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what lets a shell complete commands, options and names. Add the line of your shell to its start-up file:"""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "gar", "_GAR_COMPLETE").source())
