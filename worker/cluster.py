"""`python -m worker.cluster`: a worker of the Dask cluster that sums rows.

It needs the store's settings, `DPMCMC_DASK_SCHEDULER` and `DPMCMC_DASK_KEY`; no master key and no
database. One process adds on one core: start one for each. Dask's nanny starts it again where it
ends.
"""

import asyncio
import signal

from app import logs
from app.settings import settings
from app.storage.cluster import cluster_key
from worker.parent import die_with_parent

MODULE = "worker.cluster"  # also where it is __main__


async def work() -> None:
    """Run until SIGTERM."""
    import dask
    from distributed import Nanny

    using = settings()
    # no pages that tell of tasks, and no samples of what they call
    dask.config.set(
        {"distributed.worker.http.routes": [], "distributed.worker.profile.enabled": False}
    )
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with Nanny(using.dask_scheduler, nthreads=1, dashboard=False, preload=[MODULE]):
        await ended.wait()


async def dask_setup(_: object) -> None:
    """Set up a Dask worker: exit with its nanny, and check the cluster's key."""
    die_with_parent()
    cluster_key(settings())


def main() -> None:
    """Start the worker."""
    using = settings()
    logs.configure(using.log_format, using.log_level)
    if not using.dask_scheduler:
        raise SystemExit("set DPMCMC_DASK_SCHEDULER to the scheduler's address")
    asyncio.run(work())


if __name__ == "__main__":
    main()
