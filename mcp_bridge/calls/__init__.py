"""One call of a tool: its arguments checked, run in its transaction, its result made."""
