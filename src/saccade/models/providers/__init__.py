"""The providers that Saccade brings: one file each, with everything that is known of it."""
