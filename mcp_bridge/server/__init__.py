"""What a request means: one module for each MCP feature, and one dispatcher."""
