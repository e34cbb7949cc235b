"""What a study is: frozen controls, placements by text, validation, and the control key."""

from bench.spec.controls import (
    OWN_TARGET as OWN_TARGET,
    PRECISIONS as PRECISIONS,
    Controls as Controls,
    DeviceSpec as DeviceSpec,
    Facts as Facts,
    ModelSpec as ModelSpec,
    OptimizerSpec as OptimizerSpec,
    ParallelismSpec as ParallelismSpec,
    ProtocolSpec as ProtocolSpec,
    RecipeSpec as RecipeSpec,
    WorkloadSpec as WorkloadSpec,
)
from bench.spec.errors import SpecError as SpecError
from bench.spec.key import (
    audit_key as audit_key,
    control_key as control_key,
    differing_controls as differing_controls,
    flat_controls as flat_controls,
    short_key as short_key,
)
from bench.spec.mapping import from_mapping as from_mapping, to_mapping as to_mapping
from bench.spec.outcome import ANSWERS as ANSWERS, OUTCOMES as OUTCOMES
from bench.spec.study import (
    AUDITS as AUDITS,
    AUTO as AUTO,
    GATE as GATE,
    OFF as OFF,
    RESTORES as RESTORES,
    SCHEMA_VERSION as SCHEMA_VERSION,
    Caps as Caps,
    ChainInfo as ChainInfo,
    PlacementEntry as PlacementEntry,
    StudySpec as StudySpec,
)
from bench.spec.validate import (
    validate_caps as validate_caps,
    validate_controls as validate_controls,
    validate_protocol as validate_protocol,
)
from bench.spec.variables import device_variables as device_variables, uncontrolled as uncontrolled
