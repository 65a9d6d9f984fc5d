"""The filters that Saccade brings; each a settings object that makes a stage, one idea to a file."""
