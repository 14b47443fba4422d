"""``farm serve``: the store's state, for Prometheus to scrape."""

from __future__ import annotations

from typing import Annotated

import typer

from tensorfarm.farm.app.serving import DEFAULT_PORT, ServeRequest, serve_until_interrupted
from tensorfarm.farm.cli.options import DEFAULT_STORE, Store
from tensorfarm.farm.cli.screen import screen


def serve(
    store: Store = DEFAULT_STORE,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = DEFAULT_PORT,
    every: Annotated[float, typer.Option("--every", help="Seconds between two readings of the store.")] = 15.0,
    exposed: Annotated[bool, typer.Option("--expose", help="Allow a --host that others can reach.")] = False,
) -> None:
    """Serve open failures, regressions, staleness, budgets and queues as gauges, until Ctrl-C (docs/alerts.md)."""
    console = screen(markup=False)
    request = ServeRequest(store, host, port, every, exposed)
    serve_until_interrupted(request, lambda line: console.print(line, soft_wrap=True))


def register(application: typer.Typer) -> None:
    application.command("serve")(serve)
