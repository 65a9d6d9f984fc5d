"""Read and write the training files of other projects."""
