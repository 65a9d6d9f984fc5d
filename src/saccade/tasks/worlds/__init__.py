"""Generated worlds: tasks drawn from a seed, with the exact answer, its place, and a program that finds it."""
