"""What every part of Saccade builds on: registries, settings, HTTP with retries, and a bridge from sync to async."""
