"""Is the replayed step still the same step? A verdict, and where replay breaks."""
