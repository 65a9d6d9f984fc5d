"""A recipe on verl's trainer: verl samples and trains; episodes, rewards, selection and advantages are ours."""
