"""What every part of Saccade builds on."""
