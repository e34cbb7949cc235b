"""The parent of a study: asks the worker what the device is, runs workers until nothing is missing, survives theirs."""

from bench.study.forecasting import ForecastAnswer as ForecastAnswer, ask_forecasts as ask_forecasts
from bench.study.planning import PlanAnswer as PlanAnswer, ask_plans as ask_plans
from bench.study.probe import Probe as Probe, probe_worker as probe_worker
from bench.study.progress import Progress as Progress
from bench.study.run import run_study as run_study
from bench.study.supervise import WorkerError as WorkerError
