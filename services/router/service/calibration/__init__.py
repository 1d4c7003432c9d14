"""Calibration measures how reliable confidence is, and fits the maps by which confidence is served."""
