"""Hold programs that the sandbox runs to solve a question."""
