"""Make tasks from generated worlds, benchmarks, files and a user's own media."""
