"""Hold the foundations of every part: registries, settings, HTTP with retries, and a bridge from sync to async."""
