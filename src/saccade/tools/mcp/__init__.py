"""Tools of MCP servers, offered to a model like any other."""
