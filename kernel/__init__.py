"""The kernel holds the values and the mathematics that services, console and evaluations share, without any I/O."""
