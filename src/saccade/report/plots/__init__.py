"""Charts as inline SVG: vector, legible in dark and light, without a script."""
