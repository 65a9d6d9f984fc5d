"""Write trajectories that solve tasks of the worlds, in any dialect."""
