"""What runs on the device: torch and the model's library alone. `python -m bench.worker STUDY_DIR` measures what is
missing in one execution of a study; `python -m bench.worker.probe` says what the device and the model are."""
