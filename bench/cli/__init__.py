"""The command line: `python -m bench VERB overrides…`, one thin Hydra entry a verb."""
