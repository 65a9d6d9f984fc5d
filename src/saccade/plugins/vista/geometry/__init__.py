"""Read diagrams and solve geometry problems by rules."""
