"""Measurements: recipes that print, never tests that assert."""
