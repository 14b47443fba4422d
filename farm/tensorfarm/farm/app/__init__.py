"""What the commands do: each use case joins the store, the engine, the measurements and the observers."""
