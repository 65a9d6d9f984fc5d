"""Recipes that come with Saccade: TOML files in a folder for each command that reads them; `find` looks them up."""
