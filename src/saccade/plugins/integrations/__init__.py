"""Connect Saccade to frameworks and formats of other projects."""
