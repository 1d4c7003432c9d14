"""The delegation service exposes these Prometheus metrics."""

from prometheus_client import Counter

TASKS = Counter("metacog_delegation_tasks_total", "Tasks by mode and reason.", ["mode", "reason"])
ASSESSED = Counter("metacog_delegation_assessments_total", "Self-assessments by outcome.", ["outcome"])
LABELS = Counter("metacog_delegation_labels_total", "Labels by checker.", ["checker", "correct"])
LEARNED = Counter("metacog_delegation_profile_updates_total", "Outcomes that profiles learned.", ["outcome"])
DRIFTS = Counter("metacog_delegation_drift_events_total", "Detected changes.", ["agent", "dimension"])
