"""The sections of a report: tables and figures from runs, as plain data for the template."""
