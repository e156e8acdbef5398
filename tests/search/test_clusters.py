"""Real clusters of two workers on this machine: the records of loky, and nothing lost with a worker that is killed."""

import gc
import ipaddress
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import pytest

from gar.errors import InputError
from gar.search import parallel_backend
from gar.search.backends import CLUSTERS, CURRENT
from gar.stack import Models, TrainSettings
from tests.search.problem import LONG, record_files, search, small_data

pytestmark = pytest.mark.xdist_group("clusters")  # one of each kind is enough for all tests


def sixty_models() -> Models:
    return Models.grid(folds=range(2), seeds=range(3), learning_rates=(1e-2, 1e-3), weight_decays=(0.0, 1e-3, 1e-2, 1e-1, 1.0))


class Cluster:
    """What tests need to know of one."""

    def __init__(self, backend: str, address: str, kill_a_busy_worker: Callable[[], int | None]) -> None:
        self.backend, self.address, self.kill_a_busy_worker = backend, address, kill_a_busy_worker

    def search(self, folder: Path, settings: TrainSettings = LONG, **options: Any) -> Any:
        chosen = {"backend": self.backend, "workers": 2, **options}
        return search(small_data(), sixty_models(), settings, records=folder, chunk_size=5, **chosen)


@pytest.fixture(scope="module")
def dask() -> Iterator[Cluster]:
    distributed = pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):

        def kill() -> int | None:
            busy = [address for address, tasks in client.processing().items() if tasks]
            pids = [nanny.pid for nanny in cluster.workers.values() if nanny.worker_address in busy]
            if not pids:
                return None
            os.kill(pids[0], signal.SIGKILL)
            return int(pids[0])

        yield Cluster("dask", cluster.scheduler_address, kill)


@pytest.fixture(scope="module")
def ray() -> Iterator[Cluster]:
    psutil = pytest.importorskip("psutil", reason="looks for workers with psutil")
    session: Any = pytest.importorskip("ray", reason="the extra 'ray' is not installed")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    folder = session._private.worker.global_worker.node.get_session_dir_path()

    def kill() -> int | None:
        """A worker's title says what it is at."""
        for process in psutil.process_iter(["pid", "cmdline"]):
            if (process.info["cmdline"] or [""])[0].startswith("ray::_call") and folder in _open_files(process):
                os.kill(process.info["pid"], signal.SIGKILL)
                return int(process.info["pid"])
        return None

    yield Cluster("ray", session.get_runtime_context().gcs_address, kill)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.shutdown()
        gc.collect()  # older releases of Ray do not wait for their processes, which a later test would hear of


def _open_files(process: Any) -> str:
    """Files that a worker writes to: so it is known whose it is, and no other Ray of this machine loses one."""
    return " ".join(file.path for file in process.open_files())


@pytest.fixture(params=CLUSTERS)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def records_of_loky(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("loky")
    search(small_data(), sixty_models(), LONG, records=folder, chunk_size=5, workers=2, backend="loky")
    return contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in record_files(folder)}


def test_records_are_those_of_loky(
    cluster: Cluster, records_of_loky: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.search(tmp_path, progress=True)
    assert len(records_of_loky) == 12
    assert contents(tmp_path) == records_of_loky
    assert "60/60 models" in capsys.readouterr().err


def test_a_worker_that_is_killed_loses_nothing(cluster: Cluster, records_of_loky: dict[str, bytes], tmp_path: Path) -> None:
    """It is killed when the first chunks are done and it is at another."""
    killed: list[int] = []

    def kill_once() -> bool:
        if not killed and len(record_files(tmp_path)) >= 2 and (pid := cluster.kill_a_busy_worker()):
            killed.append(pid)
        return False

    cluster.search(tmp_path, stop=kill_once)
    assert killed
    assert contents(tmp_path) == records_of_loky


def test_stopping_keeps_records(cluster: Cluster, records_of_loky: dict[str, bytes], tmp_path: Path) -> None:
    cluster.search(tmp_path, stop=lambda: len(record_files(tmp_path)) >= 3)
    assert len(record_files(tmp_path)) == 3
    cluster.search(tmp_path)
    assert contents(tmp_path) == records_of_loky


def test_errors_of_workers_reach_the_caller(cluster: Cluster) -> None:
    with parallel_backend(cluster.backend), pytest.raises(InputError, match="no good"):
        joblib.Parallel(n_jobs=2)(joblib.delayed(complain)(text) for text in ["no good", "no good"])


def complain(text: str) -> None:
    raise InputError(text)


def test_command_line_on_a_running_cluster(cluster: Cluster, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gar", "compare", "diabetes", "--losses", "mae,gar", "--epochs", "2", "--folds", "2"]
    where = ["--backend", cluster.backend, "--address", cluster.address, "--out", str(tmp_path / "out")]
    done = subprocess.run([*command, *where], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "report.html").exists()
    assert len(list((tmp_path / "out").glob("records/loss-*"))) == 2


def is_on_cluster() -> bool:
    backend = CURRENT.get()
    return backend is not None and backend.is_cluster


def test_contexts_end_and_may_stand_in_each_other(cluster: Cluster) -> None:
    assert not is_on_cluster()
    with parallel_backend(cluster.backend):
        assert is_on_cluster()
        with parallel_backend("loky"):
            assert not is_on_cluster()
        with parallel_backend():
            assert is_on_cluster()
    assert not is_on_cluster()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "nonsense"}, "backend='nonsense'"),
        ({"backend": "loky", "address": "tcp://somewhere:1"}, "address='tcp://somewhere:1'"),
        ({"address": "tcp://somewhere:1"}, "choose backend 'dask' or 'ray'"),
    ],
)
def test_backends_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message), parallel_backend(**options):
        pass


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    monkeypatch.setattr("gar.search.backends._CONNECT_SECONDS", 0.5)
    with pytest.raises(InputError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:9'"):
        search(small_data(), sixty_models(), LONG, backend="dask", address="tcp://127.0.0.1:9")


@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_package_that_is_missing(backend: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=f"install the extra '{backend}'"), parallel_backend(backend):
        pass


LISTENERS = """
import psutil, sys
from gar.search import parallel_backend
with parallel_backend(sys.argv[1], workers=1):
    this = psutil.Process()
    for process in [this, *this.children(recursive=True)]:
        for one in process.net_connections("inet"):
            if one.status == psutil.CONN_LISTEN:
                print(one.laddr.ip)
"""


@pytest.mark.parametrize("backend", CLUSTERS)
def test_a_cluster_that_is_started_here_listens_to_no_other_machine(backend: str) -> None:
    """Neither its scheduler nor its workers nor a dashboard."""
    pytest.importorskip("psutil", reason="looks for sockets with psutil")
    pytest.importorskip({"dask": "distributed"}.get(backend, backend), reason=f"the extra {backend!r} is not installed")
    done = subprocess.run([sys.executable, "-c", LISTENERS, backend], capture_output=True, text=True, check=True, timeout=120)
    addresses = [ipaddress.ip_address(line.removeprefix("::ffff:")) for line in done.stdout.split()]
    assert len(addresses) > 2
    assert all(address.is_loopback for address in addresses), addresses
