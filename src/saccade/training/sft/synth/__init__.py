"""Make trajectories for fine-tuning, by experts or by a teacher."""
