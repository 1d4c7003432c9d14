"""The four services; each a process, none importing another."""
