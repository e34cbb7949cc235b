"""A study's result for a person: a table in the terminal, plots for a paper."""

from bench.report.plots import write_plots as write_plots
from bench.report.table import render_table as render_table, write_table as write_table
