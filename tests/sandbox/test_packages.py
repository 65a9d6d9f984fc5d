"""The packages of the extra `sandbox`: those that are installed can be imported and used in a session."""

from importlib.util import find_spec

import pytest
from tests.sandbox.providers import linux_only

from saccade.record.status import Status
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.packages import OFFERED, OfferedPackage

pytestmark = [linux_only, pytest.mark.timeout(240)]

USES = {
    "scipy": "from scipy import ndimage; print(ndimage.label([[1, 0, 1]])[1])",
    "skimage": "from skimage.measure import label; import numpy; print(label(numpy.array([[1, 0, 1]])).max())",
    "sklearn": "from sklearn.cluster import KMeans; print(len(set(KMeans(2, n_init=1).fit([[0], [9]]).labels_)))",
    "pandas": "import pandas; print(pandas.DataFrame({'a': [1, 1]}).a.sum())",
    "shapely": "from shapely import box; print(round(box(0, 0, 1, 2).area))",
    "pytesseract": "import pytesseract; print(2)",
}


@pytest.mark.parametrize("package", OFFERED, ids=lambda package: package.module)
async def test_a_package_works_in_a_session_where_it_is_installed(package: OfferedPackage) -> None:
    if package.version is None:
        pytest.skip(f"{package.distribution} is not installed here")
    async with LocalSandbox() as sandbox:
        session = await sandbox.open()
        execution = await session.run(USES[package.module])
    assert execution.status is Status.OK, execution.traceback
    assert execution.stdout.strip() == "2"


def test_the_list_says_what_is_there() -> None:
    for package in OFFERED:
        assert (package.version is None) is (find_spec(package.module) is None)
    assert OfferedPackage("no_such_module", "x").version is None
