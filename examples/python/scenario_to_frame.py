"""From a scenario to a polars frame: the kernel's share under two layouts."""

import polars as pl

import hitm

result = hitm.simulate(
    "000-root-domain/ffmpeg",
    quick=True,
    machine__cpus=16,
    layout=["linux-6.12", "root-domain-restructured"],
    workload__wakeups="2600/s",
    seeds=3,
)
frame = pl.DataFrame(result.metrics).filter(pl.col("id") == "time.kernel_of_busy")
print(frame.select("layout", "mean", "confidence", "unit"))
