"""What services, console and evaluations share and none owns: values and arithmetic, without any I/O."""
