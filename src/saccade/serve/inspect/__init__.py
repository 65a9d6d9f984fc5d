"""Tasks, loop and graders as parts of inspect_ai. Needs the extra `inspect`."""
