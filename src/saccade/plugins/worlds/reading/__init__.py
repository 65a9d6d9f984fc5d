"""Hold the programs that read pictures of the worlds, as the sandbox runs them."""
