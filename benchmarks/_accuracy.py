"""Share of held-out problems that decoded texts solve."""

import statistics
from collections.abc import Sequence

from benchmarks._report_format import Row, standard_error
from benchmarks._timing import Decoded
from draftscope.engines.protocol import Model
from draftscope.experiments.problems import Problem, bundled_problems


def accuracy(model: Model, runs: Sequence[Decoded], problems: Sequence[Problem]) -> Row:
    """Share of the problems that a model solved, the first of each run, with its standard error."""
    texts = [model.render_output(run.tokens[0]).text or "" for run in runs]
    is_correct = bundled_problems(model.card.id).is_correct
    assert is_correct is not None
    right = [float(is_correct(text, problem.answer)) for text, problem in zip(texts, problems, strict=True)]
    return {
        "problems": len(right),
        "accuracy": statistics.fmean(right),
        "accuracy_standard_error": standard_error(right),
    }
