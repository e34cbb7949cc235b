"""What device and machine did while a worker measured, watched from the parent, and what follows for its rounds."""

from bench.study.telemetry.judge import rounds_to_discard as rounds_to_discard
from bench.study.telemetry.recorder import Recorder as Recorder
from bench.study.telemetry.sampler import Sampler as Sampler
from bench.study.telemetry.session import recording as recording, take_stock as take_stock
from bench.study.telemetry.store import (
    SUMMARY_FILE as SUMMARY_FILE,
    TELEMETRY_FILE as TELEMETRY_FILE,
    TelemetrySample as TelemetrySample,
    read_telemetry as read_telemetry,
)
from bench.study.telemetry.summary import summarize as summarize, telemetry_notes as telemetry_notes
