"""Tools whose work a checkpoint in this process does, through transformers: detectors, masks, chart readers."""
