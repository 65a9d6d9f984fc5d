"""Where a model looked: the parts of the task's pictures that code, calls and returned pictures tell."""
