"""Workloads: requests with their arrival times, from recorded traces or drawn from a profile."""

from decodelab.workload.synthetic import PROFILES, synthetic
from decodelab.workload.traces import (
    Trace,
    read_azure_csv,
    read_mooncake_jsonl,
    read_trace,
    write_azure_csv,
)

__all__ = [
    "PROFILES",
    "Trace",
    "read_azure_csv",
    "read_mooncake_jsonl",
    "read_trace",
    "synthetic",
    "write_azure_csv",
]
