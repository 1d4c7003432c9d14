"""The assigner decides who plays which role, and runs the five-role dialectic."""
