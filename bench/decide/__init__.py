"""From a study's stored results to a decision: which placement, and how sure. Pure functions, no torch."""

from bench.decide.card import CardRoom as CardRoom, card_room as card_room
from bench.decide.choose import recommend as recommend
from bench.decide.origin import dropout_of as dropout_of, origin_of as origin_of
from bench.decide.settings import FORMATS as FORMATS, Settings as Settings, tool_settings as tool_settings
from bench.decide.types import Wish as Wish
