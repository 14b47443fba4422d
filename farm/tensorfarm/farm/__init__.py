"""The event pipeline across a pool of nodes. The only room that may import Ray, DuckDB and deltalake."""
