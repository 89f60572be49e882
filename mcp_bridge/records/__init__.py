"""What is recorded and signalled of calls, without secrets."""
