"""The largest size that trains within a memory limit, and the throughput there: pure functions of records."""
