"""The command line: its commands, and how errors end them."""

import atexit
import multiprocessing
import os
import sys
import warnings
from typing import Any, NoReturn

import click

from gar import __version__
from gar.app.commands.compare import compare, demo
from gar.app.commands.completion import completion
from gar.app.commands.images import images
from gar.app.commands.predict import predict
from gar.app.plugins import installed
from gar.errors import InputError

_WRONG, _INTERRUPTED = 2, 130


def _warn(message: Warning | str, *location: Any, **more: Any) -> None:
    """Show a warning without its location in the code, which is of no use to a user."""
    click.echo(f"Warning: {' '.join(str(message).split())}", err=True)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 132},
    epilog="Packages add commands. In a clone, pip install -c constraints.txt -e . -e ./reproduction adds those of the paper.",
)
@click.version_option(__version__, prog_name="gar")
def gar() -> None:
    """Regression that gets the shape right: Gradient Aligned Regression and its rivals, compared on your data."""


for _command in (compare, predict, demo, images, completion, *installed("gar.commands", _warn)):
    gar.add_command(_command)


def main() -> None:
    """Run a command. A user's error ends in one line and exit code 2, Ctrl-C in 130; neither shows a traceback."""
    warnings.showwarning = _warn
    try:
        code = gar.main(prog_name="gar", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _exit_at_once()
    except BrokenPipeError:  # the reader of a pipe has gone, as with 'gar data list | head -1'
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except (InputError, OSError) as error:
        code = _fail(str(error))
    except MemoryError as error:
        code = _fail(f"there is not enough memory ({error}); use a smaller table, network or batch size")
    sys.exit(code or 0)


def _exit_at_once() -> NoReturn:
    """End worker processes, remove temporary files and exit; shutting down libraries one by one would keep the user waiting."""
    for worker in multiprocessing.active_children():
        worker.terminate()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_INTERRUPTED)


def _fail(message: str) -> int:
    click.echo(f"Error: {' '.join(message.split())}", err=True)
    return _WRONG
