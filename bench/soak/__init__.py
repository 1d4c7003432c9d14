"""The soak: the suite under mixed load for an hour, watched for what it loses and for what grows."""
