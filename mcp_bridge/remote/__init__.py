"""Other MCP servers: their tools beside the site's own, under the site's rules."""
