"""The process that compares formulas: one JSON line `{"gold", "answer"}` in, one `{"same"}` out.

Run as a file by `math_process`. It ends itself, by signal, when one comparison takes more processor time than it
may, and has bounded memory: algebra systems can be sent on errands without end. Formulas go through a grammar (ANTLR),
never through `eval`, which is why only the LaTeX form of math-verify is used here.
"""

from __future__ import annotations

import cmath
import json
import logging
import os
import resource
import signal
import sys
from typing import Any

PROCESSOR_SECONDS = 1.0
MEMORY_BYTES = 3 << 30


def main() -> None:
    """Answer requests until the input ends."""
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import LatexExtractionConfig, parse, verify

    logging.disable(logging.CRITICAL)
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not be taken for a reply
    config = LatexExtractionConfig(
        boxed_match_priority=-1,
        normalization_config=NormalizationConfig(
            basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
        ),
    )

    def formula(text: str) -> Any:
        return parse(f"${text}$", extraction_config=[config], fallback_mode="no_fallback", parsing_timeout=None)

    def near(gold: Any, answer: Any) -> bool:
        # math-verify rounds to six places, where all small numbers are zero.
        if not (getattr(gold, "is_number", False) and getattr(answer, "is_number", False)):
            return True
        left, right = (complex(number) for number in (gold, answer))
        return cmath.isclose(left, right, rel_tol=1e-6)

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    replies.write("ready\n")
    replies.flush()
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)
        gold, answer = formula(request["gold"]), formula(request["answer"])
        same = bool(gold) and bool(answer) and verify(gold, answer, timeout_seconds=None) and near(gold[0], answer[0])
        signal.setitimer(signal.ITIMER_PROF, 0)  # to answer and to read the next request takes of no request's time
        replies.write(json.dumps({"same": bool(same)}) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
