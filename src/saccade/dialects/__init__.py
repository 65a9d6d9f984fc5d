"""How each family of checkpoints speaks: prompt, parse, observation, in exact wire formats."""
