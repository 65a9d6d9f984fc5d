"""Is this answer right? Strict, typed graders by versioned id.

    verdict = grader_for(task).grade(trajectory.answer, task)     # saccade.grading.registry
    verdict.correct, verdict.reason

A grader reads text and nothing else: it never runs, evaluates or imports what a model wrote. What it cannot read
without a doubt is wrong, and the verdict says why. Nothing here asks a model;
`judge` holds the interface of one that does.
"""
