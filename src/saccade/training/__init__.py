"""What every trainer needs: weights, optimiser, checkpoints, a journal, several processes."""
