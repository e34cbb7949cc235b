"""The study directory and its records: the one truth that every later stage is rebuilt from."""

from bench.records.directory import (
    ENVIRONMENT_FILE as ENVIRONMENT_FILE,
    LOG_FILE as LOG_FILE,
    SAMPLES_FILE as SAMPLES_FILE,
    STUDY_FILE as STUDY_FILE,
    TELEMETRY_SUMMARY_FILE as TELEMETRY_SUMMARY_FILE,
    TRACE_FOLDER as TRACE_FOLDER,
    DamagedStudyError as DamagedStudyError,
    Records as Records,
    RecordWriter as RecordWriter,
    format_record as format_record,
    parse_record as parse_record,
    read_records as read_records,
    read_study as read_study,
    replace_text as replace_text,
    slug as slug,
    study_path as study_path,
    write_json as write_json,
    write_study as write_study,
)
from bench.records.forecast import (
    FORECAST_FILE as FORECAST_FILE,
    Forecast as Forecast,
    Forecasts as Forecasts,
    read_forecasts as read_forecasts,
    write_forecasts as write_forecasts,
)
from bench.records.plan import (
    PLAN_FILE as PLAN_FILE,
    Plan as Plan,
    PlanRequest as PlanRequest,
    Plans as Plans,
    read_plans as read_plans,
    write_plans as write_plans,
)
from bench.records.reference import PLAIN as PLAIN, choose_reference as choose_reference
from bench.records.types import (
    AuditRecord as AuditRecord,
    ExecutionStarted as ExecutionStarted,
    FirstStep as FirstStep,
    MemorySample as MemorySample,
    OutcomeRecord as OutcomeRecord,
    Record as Record,
    RegionEffect as RegionEffect,
    RoundDiscarded as RoundDiscarded,
    RoundDone as RoundDone,
    Starting as Starting,
    Stopped as Stopped,
    TimeSample as TimeSample,
    WarmedUp as WarmedUp,
)
from bench.records.work import (
    TIME_CAP as TIME_CAP,
    Work as Work,
    execution_cap_s as execution_cap_s,
    kept_rounds as kept_rounds,
    kept_samples as kept_samples,
    next_work as next_work,
    round_order as round_order,
)
from bench.records.write import CannotWriteError as CannotWriteError, make_directory as make_directory
