"""Token economy: what a sample costs in tokens, against how often it is right."""
