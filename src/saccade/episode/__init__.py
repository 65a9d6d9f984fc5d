"""The loop: a model, a dialect and a sandbox, one turn after the other."""
