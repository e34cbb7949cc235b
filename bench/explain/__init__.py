"""What a step log says about the peak: pure functions of logs."""
