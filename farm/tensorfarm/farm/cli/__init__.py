"""The `farm` command: every command parses, calls one function of `app`, prints."""
