"""The packages of the extra `sandbox`: those that are installed can be imported and used in a session."""

from importlib.util import find_spec

import pytest
from tests.sandbox.providers import PROVIDERS, linux_only

from saccade.record.execution import Status
from saccade.sandbox.base import MIB, Limits
from saccade.sandbox.isolation import OFFERED, OfferedPackage
from saccade.sandbox.local import LocalSandbox

pytestmark = [linux_only, pytest.mark.timeout(240)]

USES = {
    "scipy": "from scipy import ndimage; print(ndimage.label([[1, 0, 1]])[1])",
    "skimage": "from skimage.measure import label; import numpy; print(label(numpy.array([[1, 0, 1]])).max())",
    "sklearn": "from sklearn.cluster import KMeans; print(len(set(KMeans(2, n_init=1).fit([[0], [1], [9]]).labels_)))",
    "pandas": "import pandas; print(pandas.DataFrame({'a': [1, 1]}).a.sum())",
    "shapely": "from shapely import box; print(round(box(0, 0, 1, 2).area))",
}


@pytest.mark.asyncio(loop_scope="session")
async def test_the_packages_that_are_installed_work_in_a_session(box: LocalSandbox) -> None:
    there = [package.module for package in OFFERED if package.version is not None]
    if not there:
        pytest.skip("none of them is installed here")
    session = await box.open()
    for module in there:
        execution = await session.run(USES[module])
        assert (execution.status, execution.stdout.strip()) == (Status.OK, "2"), execution.traceback


def test_the_list_says_what_is_there() -> None:
    for package in OFFERED:
        assert (package.version is None) is (find_spec(package.module) is None)
    assert OfferedPackage("no_such_module", "x").version is None


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed here")
@pytest.mark.asyncio(loop_scope="session")
async def test_a_package_that_starts_threads_is_absent(box: LocalSandbox) -> None:
    """Its threads would have every cell refused, and with it pandas, which imports it where it is there."""
    execution = await (await box.open()).run("import pyarrow")
    assert execution.status is Status.ERROR
    assert "starts threads that never end" in (execution.traceback or "")


@pytest.mark.asyncio(loop_scope="session")
async def test_a_package_that_can_never_work_says_what_to_do_instead(box: LocalSandbox) -> None:
    code = "try:\n    import pytesseract\nexcept ImportError as error:\n    print(error)"
    assert "needs the program tesseract" in (await (await box.open()).run(code)).stdout


SIDE_BY_SIDE = """
import numpy as np
from joblib import Parallel, delayed
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from threadpoolctl import threadpool_info, threadpool_limits

points = np.concatenate([np.random.rand(500, 3), np.random.rand(500, 3) + 5])
labels = KMeans(2, n_init=3, random_state=0).fit(points).labels_
forest = RandomForestClassifier(8, n_jobs=-1, random_state=0).fit(points, labels)
with threadpool_limits(limits=4):
    squares = Parallel(n_jobs=4)(delayed(pow)(number, 2) for number in range(4))
print((labels[:500] != labels[500:]).all(), forest.score(points, labels), squares, threadpool_info())
"""
"""Libraries that would use all cores: OpenMP in KMeans, joblib's workers and threads, OpenBLAS."""


@pytest.mark.slow
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_what_wants_threads_and_processes_runs_within_the_limits(provider: str) -> None:
    """In every isolation that a machine may give; and the state afterwards is kept and undone as ever."""
    pytest.importorskip("sklearn")
    async with PROVIDERS[provider](Limits(memory_bytes=1024 * MIB)) as sandbox:
        session = await sandbox.open()
        done = await session.run(SIDE_BY_SIDE)
        assert (done.status, done.stdout.strip()) == (Status.OK, "True 1.0 [0, 1, 4, 9] []"), done.traceback
        assert done.stderr == ""
        large = await session.run("labels = None; KMeans(2, n_init=1).fit(np.zeros((10_000_000, 40)))")
        assert large.status is Status.OUT_OF_MEMORY
        again = await session.run("print(len(labels), KMeans(2, n_init=1, random_state=0).fit(points).n_iter_ > 0)")
        assert (again.status, again.stdout.strip()) == (Status.OK, "1000 True"), again.traceback
