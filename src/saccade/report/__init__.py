"""Reports: what happened, as pages for people; see `saccade show`."""
