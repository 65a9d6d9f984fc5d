"""Where tasks come from, in one language that every command reads: worlds, cards, files and folders, and mixtures."""
