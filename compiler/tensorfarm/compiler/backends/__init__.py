"""One backend a file: each turns a captured program into an artifact and writes down how."""
