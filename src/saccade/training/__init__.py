"""Share what every trainer needs: weights, optimizer, checkpoints, a journal, several processes."""
