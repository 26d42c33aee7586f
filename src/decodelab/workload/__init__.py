"""Workloads: requests with their arrival times, from recorded traces or drawn from a profile."""

from decodelab.workload.arrivals import ClosedLoop, arriving, gamma, poisson
from decodelab.workload.synthetic import PROFILES, chat_like, long_document_like, synthetic
from decodelab.workload.traces import (
    Trace,
    read_azure_csv,
    read_mooncake_jsonl,
    read_trace,
    write_azure_csv,
)

__all__ = [
    "PROFILES",
    "ClosedLoop",
    "Trace",
    "arriving",
    "chat_like",
    "gamma",
    "long_document_like",
    "poisson",
    "read_azure_csv",
    "read_mooncake_jsonl",
    "read_trace",
    "synthetic",
    "write_azure_csv",
]
