"""Contents, the words of tasks, are left out of what is stored where configured, and deleted when they are old."""
