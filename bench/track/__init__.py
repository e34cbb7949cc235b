"""MLflow as a projection of study directories: publish them, find the store, open the UI."""

from bench.track.errors import TrackError as TrackError, UnfitStudyError as UnfitStudyError
from bench.track.intake import check_directory as check_directory
from bench.track.publish import Published as Published, publish_study as publish_study
from bench.track.read import is_run_id as is_run_id, published_frontier as published_frontier
from bench.track.uri import default_tracking_uri as default_tracking_uri, open_ui_command as open_ui_command
