"""Where events are kept and queried: journal, Delta tables, leases, named SQL. Alone imports DuckDB and deltalake."""
