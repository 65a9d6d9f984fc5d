"""Servers: parts of Saccade that answer over HTTP. They need `pip install 'saccade[serve]'`."""
