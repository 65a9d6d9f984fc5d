"""Serve models that look again: OpenAI protocol, live page, MCP."""
