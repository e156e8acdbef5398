"""The command line: which commands there are, and how they end."""

import atexit
import os
import sys
import warnings
from importlib.metadata import entry_points
from typing import Any, NoReturn

import click

from gar import __version__
from gar.app.commands.compare import compare, demo
from gar.app.commands.completion import completion
from gar.app.commands.images import images
from gar.app.commands.predict import predict
from gar.errors import InputError

_WRONG, _INTERRUPTED = 2, 130


def _plugins() -> list[click.Command]:
    """Return the commands of other installed packages, such as ``gar reproduce`` (entry points of the group ``gar.commands``)."""
    return [entry.load() for entry in entry_points(group="gar.commands")]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 132})
@click.version_option(__version__, prog_name="gar")
def gar() -> None:
    """Regression that gets the shape right: Gradient Aligned Regression and its rivals, compared on your data."""


for _command in (compare, predict, demo, images, completion, *_plugins()):
    gar.add_command(_command)


def main() -> None:
    """Run a command. What a user can mend ends in one line and exit code 2, Ctrl-C in 130, and neither in a traceback."""
    warnings.showwarning = _show_warning
    try:
        code = gar.main(prog_name="gar", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _leave_at_once()
    except BrokenPipeError:  # the reader of a pipe has gone, as with 'gar data list | head -1'
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except (InputError, OSError) as error:
        code = _say(str(error))
    except MemoryError as error:
        code = _say(f"there is not enough memory ({error}); use a smaller table, network or batch size")
    sys.exit(code or 0)


def _leave_at_once() -> NoReturn:
    """Temporary files are removed, but libraries are not taken down one by one: that takes longer than somebody wants to wait."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_INTERRUPTED)


def _say(message: str) -> int:
    click.echo(f"Error: {' '.join(message.split())}", err=True)
    return _WRONG


def _show_warning(message: Warning | str, *place: Any, **more: Any) -> None:
    """Without the place in the code, which tells a user nothing."""
    click.echo(f"Warning: {' '.join(str(message).split())}", err=True)
