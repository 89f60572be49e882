"""Records and signals of calls, without secrets."""
