"""Filter trajectories for fine-tuning, stage by stage, with a report."""
