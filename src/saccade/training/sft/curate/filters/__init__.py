"""Hold the filters of a curation."""
