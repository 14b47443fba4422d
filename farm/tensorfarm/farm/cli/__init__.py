"""The ``farm`` command: every command parses, calls one function of ``app``, prints.

Errors are one line: the fact, the limit, the next step. ``--debug``, anywhere on the line, adds the traceback.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterable

import typer

from tensorfarm.contract.outcome import INTERNAL_ERROR_EXIT_CODE, INTERRUPTED_EXIT_CODE
from tensorfarm.contract.refusal import Refusal

# A command's module is imported when it is the one that was asked for: ``farm query`` need not wait for torch.
COMMANDS = (
    "sweep",
    "bisect",
    "verify",
    "report",
    "explain",
    "contract",
    "query",
    "calibrate",
    "baseline",
    "serve",
    "alerts",
    "approve",
    "store",
    "doctor",
)


def main() -> None:
    """Entry point of the ``farm`` script; the exit code names the outcome class."""
    debug = "--debug" in sys.argv
    sys.exit(run([word for word in sys.argv[1:] if word != "--debug"], debug=debug))


def run(arguments: list[str], *, debug: bool = False) -> int:
    """Run one command line and return its exit code. Nothing is raised; what went wrong is one line on stderr."""
    asked = next((word for word in arguments if word in COMMANDS), None)
    try:
        _application(COMMANDS if asked is None else (asked,))(arguments)
    except SystemExit as end:
        return _status(end.code)
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT_CODE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Refusal as refusal:
        return _complain(str(refusal), refusal.exit_code, debug)
    except Exception as error:  # the last line of defence: a person gets one line, --debug the rest
        words = " ".join(str(error).split()) or "no message"
        line = f"internal error: {type(error).__name__}: {words}; run again with --debug and report it"
        return _complain(line, INTERNAL_ERROR_EXIT_CODE, debug)
    return 0


def _application(names: Iterable[str]) -> typer.Typer:
    application = typer.Typer(
        name="farm", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, callback=_farm
    )
    for name in names:
        importlib.import_module(f"{__name__}.{name}").register(application)
    return application


def _farm() -> None:
    """Compile tensor programs, prove every artifact, measure it. Results lie in ./.tensorfarm.

    --debug, anywhere on the line, adds a traceback to an error.
    """


def _status(code: object) -> int:
    """As the interpreter has it: nothing is 0, a number is itself, and a text (user code may exit with one) is 1."""
    return code if isinstance(code, int) else INTERNAL_ERROR_EXIT_CODE if code else 0


def _complain(line: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"farm: {' '.join(line.split())}", file=sys.stderr)
    return code
