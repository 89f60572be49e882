"""The MCP methods: one module per feature, and one dispatcher."""
