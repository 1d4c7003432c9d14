"""What the delegation service tells Prometheus."""

from prometheus_client import Counter

TASKS = Counter("metacog_delegation_tasks_total", "Tasks by how they were solved, and why.", ["mode", "reason"])
ASSESSED = Counter("metacog_delegation_assessments_total", "Self-assessments by how they went.", ["outcome"])
JUDGED = Counter("metacog_delegation_verdicts_total", "Verdicts by who judged.", ["checker", "correct"])
LEARNED = Counter("metacog_delegation_profile_updates_total", "Outcomes that profiles learned.", ["outcome"])
DRIFTS = Counter("metacog_delegation_drift_events_total", "Detected changes.", ["agent", "dimension"])
