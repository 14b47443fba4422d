"""``farm verify``: the gate for one artifact or one module."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from tensorfarm.farm.app.verdict_file import write_verdict
from tensorfarm.farm.app.verifying import VerifyRequest, verify
from tensorfarm.farm.cli.options import DEFAULT_STORE, AsJson, Store
from tensorfarm.farm.cli.screen import screen
from tensorfarm.farm.observe.verdict_table import print_verdict
from tensorfarm.gate.attestation import Certificate
from tensorfarm.gate.limits import SECONDS
from tensorfarm.gate.severity import severity_of

_FLAGS, _FILES = ("--json", "--debug"), ("--html", "--author")


def verify_command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="ARTIFACT|MODULE",
            help="A .artifact file, the beginning of its sha256 or candidate id, SWEEP_ID:CELL; or"
            " package.module:factory, path.py:factory, a .pt2 or .onnx file.",
        ),
    ],
    backend: Annotated[
        str,
        typer.Option("--backend", help="Of a factory: inductor, aot_eager, eager, module:function, or fx:dce,…"),
    ] = "",
    mode: Annotated[str, typer.Option("--mode", help="inference or training; as in the sweep of an artifact.")] = "",
    level: Annotated[str, typer.Option("--level", help="quick, standard or full.")] = "standard",
    contract: Annotated[
        str,
        typer.Option("--contract", metavar="FILE", help="A file, or float32, bfloat16, … for the template's."),
    ] = "",
    reference: Annotated[
        str, typer.Option("--reference", metavar="MODULE", help="Original of a file that does not bring it along.")
    ] = "",
    seed: Annotated[int | None, typer.Option("--seed", help="Of all inputs that are drawn.")] = None,
    python_path: Annotated[
        list[Path] | None, typer.Option("--python-path", help="Folder with the code; the working directory if none.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write one stand-alone page to this file.")] = None,
    author: Annotated[Path | None, typer.Option("--author", help="Write the same as a pytest file.")] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, help="How long each process may take: original, compiled program.")
    ] = SECONDS,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Prove that ARTIFACT, or what a backend makes of MODULE, still means what its source means.

    The exit code is the outcome's: 0 admitted, 12 another program, 13 a check failed, 17 undecided.
    """
    folders = python_path or [Path.cwd()]
    request = VerifyRequest(store, what, backend, mode, level, contract, reference, seed, folders, author, seconds)
    # On a terminal alone, and gone when the verdict is there: a full run takes a minute or more.
    with screen(stderr=True, markup=False).status(f"{what}: level {level}") as status:
        title, certificate = verify(request, lambda step: status.update(f"{what}, level {level}: {step} …"))
    again = shlex.join(["farm", *_asked(sys.argv[1:])])
    if html is not None:
        write_verdict(html, title, certificate, again)
    if as_json:
        print(json.dumps({"what": what, "title": title, **_as_json(certificate)}))
    else:
        print_verdict(screen(), title, certificate, again)
    for name, file in (("page", html), ("test", author)):
        if file is not None:
            print(f"{name}: {file}", file=sys.stderr if as_json else sys.stdout)
    raise typer.Exit(certificate.outcome.exit_code)


def _as_json(certificate: Certificate) -> dict[str, object]:
    """Each finding with its severity, null where nothing is wrong."""
    told = certificate.as_json()
    rows = [
        {"severity": severity_of(finding), **row}
        for finding, row in zip(certificate.findings, told["findings"], strict=True)
    ]
    return {**told, "findings": rows}


def _asked(words: list[str]) -> list[str]:
    """The command line without what only says where the answer goes."""
    kept: list[str] = []
    skip = False
    for word in words:
        option = word.partition("=")[0]
        if not skip and option not in (*_FLAGS, *_FILES):
            kept.append(word)
        skip = word in _FILES
    return kept


def register(application: typer.Typer) -> None:
    application.command("verify")(verify_command)
