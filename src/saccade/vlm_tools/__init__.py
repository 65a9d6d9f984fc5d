"""Tools that a model behind an endpoint does: chart readers and geometry solvers of published systems."""
