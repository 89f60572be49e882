"""What a server offers, without a framework: the mark, tools, tool calls and their context."""
