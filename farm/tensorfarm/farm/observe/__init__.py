"""What people see: progress while a sweep runs, the table at its end."""
