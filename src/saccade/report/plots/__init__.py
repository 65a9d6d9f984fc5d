"""Charts as inline SVG: vector, legible in dark and light, without a script.

Not by matplotlib: its SVG has colours and fonts in place of classes, which a page in dark mode cannot change, and no
tooltips on parts; and its style attributes are against the policy of the pages.
"""
