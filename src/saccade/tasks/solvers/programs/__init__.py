"""Programs that answer a question family from the pixels: plain scripts, read as text and run in the sandbox.

Nothing imports them. Each file is a script over the names of `parameters.py`; `template.py` beside this folder puts
real assignments in the place of that import.
"""
