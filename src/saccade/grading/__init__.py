"""Grade answers with strict, typed graders by versioned id.

    verdict = grader_for(task).grade(trajectory.answer, task)     # saccade.grading.registry
    verdict.correct, verdict.reason

A grader only reads text: it never runs, evaluates or imports what a model wrote. An ambiguous answer is wrong, and the
verdict says why. Nothing here asks a model; see `saccade.rewards.judges`.
"""
