"""What a tensor that outlives a step is to it."""

PARAMETER, BUFFER, GRADIENT = "parameter", "buffer", "gradient"
OPTIMIZER_STATE, INPUT, SCALER = "optimizer state", "input", "scaler"
