"""Curation: named filters in a pipeline, and a report of what each left out."""
