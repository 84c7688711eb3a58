"""Uses devices of several hosts, through the workers of a Dask or Ray cluster. The package `dask` or `ray` must be
installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from dsl.lab.machines import Machine, Machines
from dsl.lab.worker import described
from dsl.lowering.ir.location import TileError

GPU = "GPU"
"""The name of the cluster resource with which a worker declares its device."""


def machines_of_dask(address: str | None, devices: Sequence[str]) -> Machines:
    """Returns a machine for each worker of a Dask scheduler that declares the resource `GPU`. Its device is `cuda`.

    If `devices` is not empty, its length is the number of workers, and all of them use its first element. All workers
    of the cluster compile. Raises TileError.
    """
    try:
        from distributed import Client
    except ImportError:
        raise TileError("tool", None, "--executor dask needs Dask", "pip install 'dsl[dask]'") from None
    if address is None:
        hint = "--address tcp://HOST:8786, as 'dask scheduler' says it"
        raise TileError("option", None, "--executor dask needs the address of a scheduler", hint)
    try:
        client = Client(address, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        raise TileError("option", None, f"no Dask scheduler answers at {address}: {error}") from None
    # n_workers=-1, since by default the scheduler lists only five workers.
    workers = client.scheduler_info(n_workers=-1)["workers"]
    able = [at for at, each in workers.items() if devices or each["resources"].get(GPU)]
    if not able or len(able) < len(devices):
        client.close()
        hint = f"dask worker {address} --nthreads 1 --resources GPU=1, one for each GPU"
        raise TileError("option", None, f"the Dask cluster has {len(able)} workers with a device", hint)
    device, process = [*devices, "cuda"][0], DaskWorkers(client, {} if devices else {GPU: 1})
    able = able[: len(devices) or None]
    # pure=False, since otherwise Dask would treat equal calls as one and reuse its result.
    first = [client.submit(described, device, workers=[at], pure=False, resources=process.takes) for at in able]
    return Machines([Machine(process, device, said) for said in first], client.get_executor(pure=False), client.close)


class DaskWorkers:
    """Runs tasks on any free worker of a Dask cluster. A task may require a worker with the resource `GPU`.

    No task is tied to a worker. If a worker dies, its Dask nanny starts another one. The scheduler then gives the task
    to other workers, at most `allowed-failures` times.
    """

    def __init__(self, client: Any, takes: dict[str, int]):
        self.takes = takes
        self.tasks = client.get_executor(pure=False, resources=takes)

    def executor(self) -> Executor:
        return self.tasks

    def renew(self) -> None:
        """Does nothing, because Dask replaces a dead process. A process whose GPU has failed exits at its next task."""

    def close(self, now: bool) -> None:
        """Waits for running tasks unless `now` is set. The cluster's workers are not stopped."""
        self.tasks.shutdown(wait=not now)

    def is_dead(self, error: BaseException) -> bool:
        from distributed import KilledWorker

        return isinstance(error, KilledWorker)


def machines_of_ray(address: str | None, devices: Sequence[str]) -> Machines:
    """Starts an actor with `num_gpus=1` for each GPU of a Ray cluster, or one actor for each element of `devices`.

    Without an address, Ray starts a cluster on this host. Ray tasks compile the code. Raises TileError.
    """
    try:
        import ray
    except ImportError:
        raise TileError("tool", None, "--executor ray needs Ray", "pip install 'dsl[ray]'") from None
    try:
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False, logging_level="warning")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise TileError("option", None, f"no Ray cluster answers at {address}: {error}") from None
    count = len(devices) or int(ray.cluster_resources().get(GPU, 0))
    if not count:
        raise TileError("option", None, "the Ray cluster has no GPU", "without GPUs: --devices emulator,emulator")
    takes = {"num_gpus": 0 if devices else 1, "num_cpus": 0}  # compilation takes all processors
    machines = [Machine(RayProcess(takes), device) for device in devices or ["cuda"] * count]
    compiling = Submitting(lambda function, *what: ray.remote(num_cpus=1)(function).remote(*what).future())
    return Machines(machines, compiling, ray.shutdown)


class Submitting(Executor):
    """An `Executor` that wraps the function `begin`, which submits a call and returns a future."""

    def __init__(self, begin: Callable[..., Future[Any]]):
        self.begin = begin

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        return self.begin(function, *arguments, **named)


class RayProcess:
    """An actor of a Ray cluster, which has a process and a device of its own."""

    def __init__(self, takes: dict[str, Any]):
        self.takes = takes
        self.begin()

    def begin(self) -> None:
        import ray

        class Caller:
            def call(self, function: Any, *arguments: Any) -> Any:
                return function(*arguments)

        # max_restarts=0, so that Ray does not restart a dead actor. First the tuner settles the point that killed the
        # actor. Then the tuner restarts the actor.
        self.actor = ray.remote(max_restarts=0, **self.takes)(Caller).remote()

    def executor(self) -> Executor:
        return Submitting(lambda *what: self.actor.call.remote(*what).future())

    def renew(self) -> None:
        self.close(now=True)
        self.begin()

    def close(self, now: bool) -> None:
        import ray

        ray.kill(self.actor)

    def is_dead(self, error: BaseException) -> bool:
        from ray.exceptions import RayActorError

        return isinstance(error, RayActorError)
