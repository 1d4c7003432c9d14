"""The commands that read and change records: runs, feedback, knowledge, agents and profiles."""
