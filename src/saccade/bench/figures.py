"""The least that hands out figures where a peer does not: save every open one as PNG, then close it."""

from __future__ import annotations

import io
import warnings

SAVE_IN_CHILD = """
import sys as _sys
if 'matplotlib.pyplot' in _sys.modules:
    import io as _io, matplotlib.pyplot as _plt
    for _n in _plt.get_fignums():
        _file = _io.BytesIO()
        _plt.figure(_n).savefig(_file, format='png')
        _sys.stderr.write(f'picture {len(_file.getvalue())}\\n')
"""
"""The same for a process whose figures are counted on its standard error."""


def saved_figures() -> int:
    """Save and close the open figures of this process; how many there were."""
    import matplotlib.pyplot as plt

    numbers = plt.get_fignums()
    for number in numbers:
        plt.figure(number).savefig(io.BytesIO(), format="png")
        plt.close(number)
    return len(numbers)


def quiet_show() -> warnings.catch_warnings[None]:
    """A context in which `plt.show` without a screen does not warn."""
    import matplotlib

    matplotlib.use("Agg")
    return warnings.catch_warnings(action="ignore", category=UserWarning)
