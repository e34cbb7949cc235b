"""One step recorded op by op. The log is plain data; recording and forecasting load torch."""
