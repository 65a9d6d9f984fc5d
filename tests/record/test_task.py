"""Trees of source from several threads at once."""

import ast
from concurrent.futures import ThreadPoolExecutor

import pytest

from saccade.record.task import parse

PROGRAM = "\n".join(
    f"def f{n}(x):\n    return [[g(x + {n}, h(x)) for x in y if x > {n}] for y in x]" for n in range(60)
)


def test_the_tree_is_that_of_ast() -> None:
    assert ast.dump(parse(PROGRAM)) == ast.dump(ast.parse(PROGRAM))
    with pytest.raises(SyntaxError):
        parse("a b")


def test_threads_do_not_disturb_one_another() -> None:
    with ThreadPoolExecutor(6) as threads:
        trees = list(threads.map(lambda _: parse(PROGRAM), range(200)))
    assert all(len(tree.body) == 60 for tree in trees)
