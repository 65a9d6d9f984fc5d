"""Run folders as a report reads them."""
