"""Tests of the seat: one file per module, the same name."""
