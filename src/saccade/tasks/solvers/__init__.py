"""Expert programs for families of questions about drawn pictures (those of BlindTest), chosen by a question's wording.

solver = solver_for("Are the two circles touching each other? Answer with Yes/No.")
solver.program("image_clue_0")      # Python for the sandbox that prints `Yes` or `No` as its last line
"""
