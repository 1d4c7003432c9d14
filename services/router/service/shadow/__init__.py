"""Shadow runs answer a share of the traffic again by another policy, and are compared with what was served."""
