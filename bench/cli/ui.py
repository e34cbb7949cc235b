"""`ui`: open MLflow on the studies that have been published."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence

from bench.cli.answer import COMPLETE, PARTIAL, Answer
from bench.cli.entry import Options, run_verb
from bench.cli.tracking import store_to_open
from bench.spec import SpecError
from bench.track import TrackError, open_ui_command
from bench.track.secrets import without_password
from bench.track.uri import sqlite_file


def run(overrides: Sequence[str]) -> int:
    return run_verb("ui", open_ui, overrides)


def open_ui(options: Options) -> Answer:
    uri = store_to_open(options["results"], options["tracker"])
    command = _command(uri, options["port"])
    print(f"MLflow on http://127.0.0.1:{options['port']} (end it with Ctrl-C)")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # MLflow's own processes must end with this one
    server = subprocess.Popen(["sh", "-c", f"exec env {command}"])
    try:
        ended = server.wait()
    except KeyboardInterrupt:
        server.terminate()
        server.wait()
        ended = 0
    return Answer(exit_code=COMPLETE if ended == 0 else PARTIAL, data={"store": without_password(uri)})


def _command(uri: str, port: object) -> str:
    if not isinstance(port, int) or not 1 <= port <= 65535:
        raise SpecError(f"port: expected a whole number from 1 to 65535, got {port!r}")
    try:
        database = sqlite_file(uri)
        if database is not None and not database.exists():
            raise SpecError(f"nothing has been published to {database} yet; python -m bench sweep model=gpt2-tiny does")
        return open_ui_command(uri, port=port)
    except TrackError as error:
        raise SpecError(str(error)) from None
